// Gradients of variance, norms, products and log-sum-exp.
#include "../../tensor/ops/statistics.h"

#include <bit>
#include <limits>

#include "../../tensor/core/dispatch.h"
#include "../grad_mode.h"
#include "../ops/operators.h"
#include "../ops/pointwise.h"
#include "norm_gradient.h"
#include "reduce_support.h"
#include "running_product.h"
#include "wide.h"

namespace mezzo::op {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/** Returns x minus its mean over `dims`. */
Tensor deviation(const Tensor& x, std::uint32_t dims) {
  return x - apply_with<Mean>({dims, true}, x);
}

/** Returns the result of Op before it was rounded to 16 bits, in which a gradient would lose its
 *  digits: computed again from x, the operand in the compute dtype. */
template <class Op> Tensor unrounded(const Saved& saved, const Tensor& x) {
  const Tensor& y = saved.outputs[0];
  return is_low(y.dtype()) ? apply_with<Op>(saved.attrs<Op>(), x) : y;
}

double divisor(const Shape& shape, const VarianceAttrs& attrs) {
  return std::max(0.0,
                  static_cast<double>(reduced_count(shape, attrs.reduce())) - attrs.correction);
}

/** Returns, for each element, the product of the other elements of its slice. */
Tensor prod_of_others(const Tensor& x, int dim) {
  if (!grad_enabled()) return apply_with<ProdOfOthers>({dim}, x);
  return product_before(wide(x), dim) * product_before(wide(x), dim, true);
}

}  // namespace

Grads LogSumExp::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<LogSumExp>();
  const Shape& shape = saved.shape(0);
  // The result is rounded, by up to the logarithm of the number of elements: it only shifts the
  // exponents, and the terms are divided by their own sum. That of a line of -inf is 0, as is its
  // gradient.
  const Tensor y = with_kept_dims(wide(saved.outputs[0].detach()), shape, attrs.dims);
  const Tensor terms = exp(wide(saved.inputs[0]) - where(y == -kInfinity, 0, y));
  const Tensor total = apply_with<Sum>({attrs.dims, true}, terms);
  return {terms * (with_kept_dims(wide(gy[0]), shape, attrs.dims) / nonzero_or_one(total))};
}

std::vector<Tensor> Norm::composite(Inputs in, const Attrs& attrs) {
  return {apply_with<VectorNorm>(attrs, in[0])};
}

Grads Prod::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Prod>();
  const Tensor& x = saved.inputs[0];
  if (x.dim() == 0) return {gy[0]};
  const Tensor g = with_kept_dims(wide(gy[0]), x.shape(), attrs.dims);
  if (std::has_single_bit(attrs.dims)) return {g * prod_of_others(x, std::countr_zero(attrs.dims))};
  const Tensor line = x.reshape({x.numel()});
  return {g * prod_of_others(line, 0).view(x.shape())};
}

Grads Std::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Std>();
  const Shape& shape = saved.shape(0);
  const Tensor x = wide(saved.inputs[0]);
  const Tensor y = with_kept_dims(unrounded<Std>(saved, x), shape, attrs.dims);
  const Tensor g = with_kept_dims(wide(gy[0]), shape, attrs.dims) / divisor(shape, attrs);
  return {times_quotient(deviation(x, attrs.dims), g, y)};
}

Grads Var::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Var>();
  const Shape& shape = saved.shape(0);
  const Tensor g = with_kept_dims(wide(gy[0]), shape, attrs.dims) * (2 / divisor(shape, attrs));
  return {deviation(wide(saved.inputs[0]), attrs.dims) * g};
}

Grads VectorNorm::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<VectorNorm>();
  const Shape& shape = saved.shape(0);
  const Tensor x = wide(saved.inputs[0]);
  return {norm_gradient(x, with_kept_dims(unrounded<VectorNorm>(saved, x), shape, attrs.dims),
                        with_kept_dims(wide(gy[0]), shape, attrs.dims), attrs)};
}

}  // namespace mezzo::op
