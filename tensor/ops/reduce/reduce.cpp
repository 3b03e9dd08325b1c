// Shape rules, gradients and public functions of the ops in reduce.h.
#include "reduce.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../elementwise/operators.h"
#include "arg_reduce.h"
#include "reduce_support.h"
#include "scan.h"
#include "statistics.h"

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

// Gradients of the reductions.

namespace {

/** Returns the gradient of an extreme: shared equally among the elements that equal it, or among
 *  the nans if it is nan. */
Grads share_among_ties(const Saved& saved, const ReduceAttrs& attrs, const Tensor& gy) {
  const Tensor& x = saved.inputs[0];
  const Tensor y = with_kept_dims(saved.outputs[0].detach(), x.shape(), attrs.dims);
  const Tensor g = with_kept_dims(gy, x.shape(), attrs.dims);
  const Tensor values = x.detach();
  const Tensor chosen = where(y == y, values == y, values != values);
  return {where(chosen, g / apply_with<Sum>({attrs.dims, true}, chosen), operand(0))};
}

}  // namespace

Grads Amax::backward(const Saved& saved, const Grads& gy) {
  return share_among_ties(saved, saved.attrs<Amax>(), gy[0]);
}

Grads Amin::backward(const Saved& saved, const Grads& gy) {
  return share_among_ties(saved, saved.attrs<Amin>(), gy[0]);
}

Grads Mean::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Mean>();
  const Tensor g = gy[0] / operand(static_cast<double>(reduced_count(saved.shape(0), attrs)));
  return {with_kept_dims(g, saved.shape(0), attrs.dims).expand(saved.shape(0))};
}

Grads Sum::backward(const Saved& saved, const Grads& gy) {
  return {with_kept_dims(gy[0], saved.shape(0), saved.attrs<Sum>().dims).expand(saved.shape(0))};
}

}  // namespace mezzo::op

namespace mezzo {

Tensor all(const Tensor& x, const Dims& dims, const KeepDimOptions& options) {
  return reduced<op::All>(x, dims, options);
}
Tensor amax(const Tensor& x, const Dims& dims, const KeepDimOptions& options) {
  return reduced<op::Amax>(x, dims, options);
}
Tensor amin(const Tensor& x, const Dims& dims, const KeepDimOptions& options) {
  return reduced<op::Amin>(x, dims, options);
}
Tensor any(const Tensor& x, const Dims& dims, const KeepDimOptions& options) {
  return reduced<op::Any>(x, dims, options);
}
Tensor count_nonzero(const Tensor& x, const Dims& dims, const KeepDimOptions& options) {
  return reduced<op::CountNonzero>(x, dims, options);
}
Tensor mean(const Tensor& x, const Dims& dims, const ReduceOptions& options) {
  return reduced<op::Mean>(x, dims, options);
}
Tensor sum(const Tensor& x, const Dims& dims, const ReduceOptions& options) {
  return reduced<op::Sum>(x, dims, options);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int lead = x.dim() - shape.rank();
  std::uint32_t dims = 0;
  for (int i = 0; i < x.dim(); ++i)
    if (i < lead || (shape[i - lead] == 1 && x.shape()[i] != 1)) dims |= 1u << i;
  return apply_with<op::Sum>({dims, true}, x).view(shape);
}

}  // namespace mezzo
