// Shared parts of the functions and the gradients of reductions.
#pragma once

#include <optional>

#include "../../core/dispatch.h"
#include "reduce.h"

namespace mezzo {

/** Returns a result or its gradient with every reduced dimension of the operand at size 1, so that
 *  it broadcasts against the operand. */
inline Tensor with_kept_dims(const Tensor& y, const Shape& operand, std::uint32_t dims) {
  return y.view(op::reduced_shape(operand, {dims, true}));
}

/** Returns the attributes of a reduction over dims, which are checked in the name of the op. */
template <class Op> op::ReduceAttrs attrs_of(const Tensor& x, const Dims& dims, bool keepdim) {
  return {dim_mask(dims, x.dim(), Op::traits.name.data()), keepdim};
}

/** Reduces x. */
template <class Op>
Tensor reduced(const Tensor& x, const Dims& dims, const KeepDimOptions& options) {
  return apply_with<Op>(attrs_of<Op>(x, dims, options.keepdim), x);
}

/** Does the same. An explicit dtype overrides the op's precision tag. */
template <class Op>
Tensor reduced(const Tensor& x, const Dims& dims, const ReduceOptions& options) {
  const op::ReduceAttrs attrs = attrs_of<Op>(x, dims, options.keepdim);
  if (!options.dtype) return apply_with<Op>(attrs, x);
  const CastScope no_casts(nullptr);
  return apply_with<Op>(attrs, x.to(*options.dtype));
}

/** Does the same for ops with other attributes. */
template <class Op>
Tensor converted(const Tensor& x, const AttrsOf<Op>& attrs, const std::optional<DType>& dtype) {
  if (!dtype) return apply_with<Op>(attrs, x);
  const CastScope no_casts(nullptr);
  return apply_with<Op>(attrs, x.to(*dtype));
}

}  // namespace mezzo
