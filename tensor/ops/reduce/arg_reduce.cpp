// Shape rules and gradients of the ops in arg_reduce.h.
#include "arg_reduce.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "reduce.h"
#include "reduce_support.h"

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

// Gradients of the reductions that return indices.

namespace {

/** Returns 0, 1, ... along `dim`, with size 1 in the other dimensions. */
Tensor positions(const Shape& shape, int dim, Device device) {
  Shape line = Shape::filled(shape.rank(), 1);
  line[dim] = shape[dim];
  return arange(static_cast<double>(shape[dim]), {.dtype = DType::i64, .device = device})
      .view(line);
}

/** Returns the gradient, which goes to the chosen elements only. */
Grads to_chosen(const Saved& saved, int dim, const Tensor& gy) {
  const Shape& shape = saved.shape(0);
  if (shape.rank() == 0) return {gy};
  const Tensor g = with_kept_dims(gy, shape, 1u << dim);
  const Tensor index = with_kept_dims(saved.outputs[1], shape, 1u << dim);
  return {where(positions(shape, dim, gy.device()) == index, g, operand(0))};
}

}  // namespace

Grads Max::backward(const Saved& saved, const Grads& gy) {
  return to_chosen(saved, saved.attrs<Max>().dim, gy[0]);
}

Grads Min::backward(const Saved& saved, const Grads& gy) {
  return to_chosen(saved, saved.attrs<Min>().dim, gy[0]);
}

}  // namespace mezzo::op

namespace mezzo {

namespace {

template <class Op> Tensor place(const Tensor& x, const ArgReduceOptions& options) {
  const int dim = options.dim ? wrap_dim(*options.dim, x.dim(), Op::traits.name.data()) : 0;
  return apply_with<Op>({dim, !options.dim, options.keepdim}, x);
}

template <class Op>
ValuesAndIndices extreme(const Tensor& x, std::int64_t dim, const KeepDimOptions& options) {
  return apply_pair<ValuesAndIndices, Op>(
      {wrap_dim(dim, x.dim(), Op::traits.name.data()), false, options.keepdim}, x);
}

}  // namespace

Tensor argmax(const Tensor& x, const ArgReduceOptions& options) {
  return place<op::Argmax>(x, options);
}

Tensor argmin(const Tensor& x, const ArgReduceOptions& options) {
  return place<op::Argmin>(x, options);
}

Tensor max(const Tensor& x) { return amax(x); }

ValuesAndIndices max(const Tensor& x, std::int64_t dim, const KeepDimOptions& options) {
  return extreme<op::Max>(x, dim, options);
}

Tensor min(const Tensor& x) { return amin(x); }

ValuesAndIndices min(const Tensor& x, std::int64_t dim, const KeepDimOptions& options) {
  return extreme<op::Min>(x, dim, options);
}

}  // namespace mezzo
