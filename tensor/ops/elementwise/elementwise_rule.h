// The backward function of all elementwise ops, elementwise_backward. The sources that
// the build makes of gradients.cpp.in and user-defined ops include it.
// See also: tensor/core/elementwise.h (the formulas that it evaluates).
#pragma once

#include <array>
#include <optional>
#include <type_traits>
#include <utility>

#include "../../core/dispatch.h"
#include "../create.h"
#include "apply.h"
#include "operators.h"
#include "pointwise.h"

namespace mezzo {

namespace op {
struct Mul;
}

/** The select function of op formulas that are evaluated on tensors. */
inline Tensor select(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return where(condition, a, b);
}
inline Tensor select(const Tensor& condition, const Tensor& a, double b) {
  return where(condition, a, operand(b));
}
inline Tensor select(const Tensor& condition, double a, const Tensor& b) {
  return where(condition, operand(a), b);
}

namespace detail {

/** Returns the gradients of a product for an incoming gradient of 1, without computing anything, if
 *  one of the factors is their only one. */
MZ_API std::optional<Grads> unit_product_gradients(const Saved& saved, const Tensor& gy);

/** Runs the op's gradient kernel: one pass over memory for all wanted gradients. */
MZ_API Grads fused_elementwise_backward(const Saved& saved, const Tensor& gy);

/** Returns the sum of a 16-bit gradient on a device over its first dimensions, which leaves
 *  `shape`, with the bits of a sum in f32, rounded once. */
Tensor summed_gradient(const Tensor& gy, const Shape& shape);

/** Converts x to the dtype that the formula computes in, so that the formula rounds once, at its
 *  end, as the fused kernel does. C++ numbers become tensors of that dtype; undefined tensors stay
 *  undefined. */
MZ_API Tensor formula_operand(const Tensor& x, DType arithmetic);

/** Returns the dtype that the op's gradients are computed in: f32 or f64. */
MZ_API DType formula_arithmetic(const Saved& saved, const Tensor& gy);

template <class Op, std::size_t... I>
Grads composite_elementwise_backward(const Saved& saved, const Tensor& gy,
                                     std::index_sequence<I...>) {
  Grads gradients(sizeof...(I));
  const auto& attrs = *static_cast<const AttrsOf<Op>*>(saved.attrs_address);
  const DType arithmetic = formula_arithmetic(saved, gy);
  const auto operand = [&](std::size_t i) {
    const Tensor& x = saved.inputs[i];
    return Op::traits.is_mask(static_cast<int>(i)) ? x : formula_operand(x, arithmetic);
  };
  const std::array<Tensor, sizeof...(I)> x{operand(I)...};
  const Tensor y = formula_operand(saved.outputs[0], arithmetic),
               g = formula_operand(gy, arithmetic);
  const auto one = [&]<std::size_t J>(std::integral_constant<std::size_t, J>) {
    if constexpr (!Op::traits.is_mask(static_cast<int>(J)))
      if (saved.wants(static_cast<int>(J)))
        gradients[J] = elementwise_gradient<Op, static_cast<int>(J), Tensor>(g, y, attrs, x[I]...);
  };
  (one(std::integral_constant<std::size_t, I>{}), ...);
  return gradients;
}

}  // namespace detail

/** Returns the gradients of an elementwise op: from one fused kernel, or, while gradients are
 *  recorded, from differentiable ops. */
template <class Op> Grads elementwise_backward(const Saved& saved, const Grads& gy) {
  if (grad_enabled())
    return detail::composite_elementwise_backward<Op>(
        saved, gy[0], std::make_index_sequence<static_cast<std::size_t>(Op::traits.inputs)>{});
  if constexpr (std::is_same_v<Op, op::Mul>)
    if (auto gradients = detail::unit_product_gradients(saved, gy[0])) return *std::move(gradients);
  return detail::fused_elementwise_backward(saved, gy[0]);
}

}  // namespace mezzo
