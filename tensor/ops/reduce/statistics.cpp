// Shape rules and gradients of the ops in statistics.h.
#include "statistics.h"

#include <bit>
#include <cmath>
#include <limits>

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../elementwise/operators.h"
#include "../elementwise/pointwise.h"
#include "../wide.h"
#include "reduce_gradient.h"
#include "reduce_support.h"

namespace mezzo::op {

namespace {

OutSpecs floating_reduction(const Tensor& x, const ReduceAttrs& attrs, std::string_view op) {
  if (!is_floating(x.dtype()))
    fail<DtypeError>(op, {.what = "not defined for integers",
                          .got = str(x),
                          .expected = "a floating dtype",
                          .hint = "use x.to(f32)"});
  return {{reduced_shape(x.shape(), attrs), x.dtype()}};
}

}  // namespace

OutSpecs LogSumExp::infer(Inputs in, const Attrs& attrs) {
  const DType dtype = is_floating(in[0].dtype()) ? in[0].dtype() : DType::f32;
  return {{reduced_shape(in[0].shape(), attrs), dtype}};
}

OutSpecs Prod::infer(Inputs in, const Attrs& attrs) {
  const DType dtype = is_floating(in[0].dtype()) ? in[0].dtype() : DType::i64;
  return {{reduced_shape(in[0].shape(), attrs), dtype}};
}

OutSpecs ProdOfOthers::infer(Inputs in, const Attrs&) {
  return {{in[0].shape(), compute_dtype(in[0].dtype())}};
}

OutSpecs Std::infer(Inputs in, const Attrs& attrs) {
  return floating_reduction(in[0], attrs.reduce(), traits.name);
}

OutSpecs Var::infer(Inputs in, const Attrs& attrs) {
  return floating_reduction(in[0], attrs.reduce(), traits.name);
}

OutSpecs VectorNorm::infer(Inputs in, const Attrs& attrs) {
  if (std::isnan(attrs.p))
    fail<ValueError>(traits.name, {.what = "p is not a number", .got = "nan"});
  const bool needs_elements = attrs.p < 0 || std::isinf(attrs.p);
  if (needs_elements && reduced_count(in[0].shape(), attrs.reduce()) == 0)
    fail<ShapeError>(traits.name,
                     {.what = str("the norm with p = ", attrs.p, " of no elements is undefined"),
                      .got = str(in[0]),
                      .expected = "at least one element along the reduced dimensions"});
  return floating_reduction(in[0], attrs.reduce(), traits.name);
}

std::span<OpInfo* const> statistics_ops() { return infos_of(StatisticsOps{}); }

// Gradients of variance, norms, products and log-sum-exp.

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

namespace mezzo {

namespace {

template <class Op> Tensor p_norm(const Tensor& x, const Dims& dims, const NormOptions& options) {
  const std::uint32_t mask = dim_mask(dims, x.dim(), Op::traits.name.data());
  return converted<Op>(x, {options.p, mask, options.keepdim}, options.dtype);
}

template <class Op>
Tensor spread(const Tensor& x, const Dims& dims, const VarianceOptions& options) {
  return apply_with<Op>(
      {dim_mask(dims, x.dim(), Op::traits.name.data()), options.keepdim, options.correction}, x);
}

}  // namespace

Tensor logsumexp(const Tensor& x, const Dims& dims, const KeepDimOptions& options) {
  return reduced<op::LogSumExp>(x, dims, options);
}

Tensor norm(const Tensor& x, const Dims& dims, const NormOptions& options) {
  return p_norm<op::Norm>(x, dims, options);
}

Tensor prod(const Tensor& x, const ReduceOptions& options) {
  return reduced<op::Prod>(x, {}, options);
}

Tensor prod(const Tensor& x, std::int64_t dim, const ReduceOptions& options) {
  return reduced<op::Prod>(x, dim, options);
}

Tensor std(const Tensor& x, const Dims& dims, const VarianceOptions& options) {
  return spread<op::Std>(x, dims, options);
}

Tensor var(const Tensor& x, const Dims& dims, const VarianceOptions& options) {
  return spread<op::Var>(x, dims, options);
}

Tensor vector_norm(const Tensor& x, const Dims& dims, const NormOptions& options) {
  return p_norm<op::VectorNorm>(x, dims, options);
}

}  // namespace mezzo
