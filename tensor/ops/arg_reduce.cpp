// Shape rules of the reductions that give indices.
#include "arg_reduce.h"

#include "../core/registry.h"
#include "../text/text.h"

namespace mezzo::op {

namespace {

Shape shape_of_indices(const Tensor& x, const ArgReduceAttrs& attrs, std::string_view op) {
  const bool all = attrs.all || x.dim() == 0;
  if ((all ? x.numel() : x.shape()[attrs.dim]) == 0)
    fail<ShapeError>(op,
                     {.what = "the extreme of no elements is undefined",
                      .got = str(x),
                      .expected = all ? "at least one element"
                                      : str("at least one element along dimension ", attrs.dim)});
  if (all) return attrs.keepdim ? Shape::filled(x.dim(), 1) : Shape{};
  Shape out = x.shape();
  if (attrs.keepdim)
    out[attrs.dim] = 1;
  else
    out.erase(attrs.dim);
  return out;
}

OutSpecs indices(Inputs in, const ArgReduceAttrs& attrs, std::string_view op) {
  return {{shape_of_indices(in[0], attrs, op), DType::i64}};
}

OutSpecs values_and_indices(Inputs in, const ArgReduceAttrs& attrs, std::string_view op) {
  const Shape shape = shape_of_indices(in[0], attrs, op);
  return {{shape, in[0].dtype()}, {shape, DType::i64}};
}

}  // namespace

OutSpecs Argmax::infer(Inputs in, const Attrs& attrs) { return indices(in, attrs, traits.name); }

OutSpecs Argmin::infer(Inputs in, const Attrs& attrs) { return indices(in, attrs, traits.name); }

OutSpecs Max::infer(Inputs in, const Attrs& attrs) {
  return values_and_indices(in, attrs, traits.name);
}

OutSpecs Min::infer(Inputs in, const Attrs& attrs) {
  return values_and_indices(in, attrs, traits.name);
}

std::span<OpInfo* const> arg_reduce_ops() { return infos_of(ArgReduceOps{}); }

}  // namespace mezzo::op
