// C++ numbers as operands of ops.
#pragma once

#include <type_traits>

#include "../../core/subscript.h"
#include "../../core/tensor.h"

namespace mezzo {

/** Returns a C++ number as an operand. It enters the arithmetic unrounded, and does not affect the
 *  result's dtype within its category (bool, integer, floating-point). */
template <Number S> Tensor operand(S value) {
  if constexpr (std::is_integral_v<S>)
    return scalar_operand(static_cast<std::int64_t>(value));
  else
    return scalar_operand(static_cast<double>(value));
}

template <Number S> Tensor TensorMethods::pow(S exponent) const { return pow(operand(exponent)); }
template <Number S> const Tensor& TensorMethods::add_(S other) const {
  return add_(operand(other));
}
template <Number S> const Tensor& TensorMethods::div_(S other) const {
  return div_(operand(other));
}
template <Number S> const Tensor& TensorMethods::mul_(S other) const {
  return mul_(operand(other));
}
template <Number S> const Tensor& TensorMethods::sub_(S other) const {
  return sub_(operand(other));
}
template <Number S>
const Tensor& Tensor::index_put_(std::initializer_list<Index> indices, S value,
                                 bool accumulate) const {
  return index_put_(indices, operand(value), accumulate);
}

}  // namespace mezzo
