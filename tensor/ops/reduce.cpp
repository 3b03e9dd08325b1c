// Shape rules of the reductions.
#include "reduce.h"

#include "../core/registry.h"
#include "../text/text.h"

namespace mezzo::op {

Shape reduced_shape(const Shape& shape, const ReduceAttrs& attrs) {
  Shape out;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool reduced = attrs.dims >> i & 1;
    if (!reduced)
      out.push_back(shape[i]);
    else if (attrs.keepdim)
      out.push_back(1);
  }
  return out;
}

std::int64_t reduced_count(const Shape& shape, const ReduceAttrs& attrs) {
  std::int64_t count = 1;
  for (int i = 0; i < shape.rank(); ++i)
    if (attrs.dims >> i & 1) count *= shape[i];
  return count;
}

namespace {

/** Checks that there are elements to reduce: an extreme of no elements is undefined. */
void require_elements(const Tensor& x, const ReduceAttrs& attrs, std::string_view op) {
  if (reduced_count(x.shape(), attrs) == 0)
    fail<ShapeError>(op, {.what = "the extreme of no elements is undefined",
                          .got = str(x),
                          .expected = "at least one element along the reduced dimensions"});
}

OutSpecs extreme(Inputs in, const ReduceAttrs& attrs, std::string_view op) {
  require_elements(in[0], attrs, op);
  return {{reduced_shape(in[0].shape(), attrs), in[0].dtype()}};
}

}  // namespace

OutSpecs All::infer(Inputs in, const Attrs& attrs) {
  return {{reduced_shape(in[0].shape(), attrs), DType::boolean}};
}

OutSpecs Amax::infer(Inputs in, const Attrs& attrs) { return extreme(in, attrs, traits.name); }

OutSpecs Amin::infer(Inputs in, const Attrs& attrs) { return extreme(in, attrs, traits.name); }

OutSpecs Any::infer(Inputs in, const Attrs& attrs) {
  return {{reduced_shape(in[0].shape(), attrs), DType::boolean}};
}

OutSpecs CountNonzero::infer(Inputs in, const Attrs& attrs) {
  return {{reduced_shape(in[0].shape(), attrs), DType::i64}};
}

OutSpecs Mean::infer(Inputs in, const Attrs& attrs) {
  if (!is_floating(in[0].dtype()))
    fail<DtypeError>(traits.name, {.what = "the mean of integers is not an integer",
                                   .got = str(in[0]),
                                   .expected = "a floating dtype",
                                   .hint = "pass {.dtype = f32}"});
  return {{reduced_shape(in[0].shape(), attrs), in[0].dtype()}};
}

OutSpecs Sum::infer(Inputs in, const Attrs& attrs) {
  const DType dtype = is_floating(in[0].dtype()) ? in[0].dtype() : DType::i64;
  return {{reduced_shape(in[0].shape(), attrs), dtype}};
}

std::span<OpInfo* const> reduce_ops() { return infos_of(ReduceOps{}); }

}  // namespace mezzo::op
