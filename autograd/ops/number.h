// C++ numbers as operands of ops.
#pragma once

#include <type_traits>

#include "../../tensor/core/tensor.h"

namespace mezzo {

/** Any arithmetic C++ type. */
template <class S>
concept Number = std::is_arithmetic_v<S>;

/** Returns a C++ number as an operand. It enters the arithmetic unrounded, and does not affect the
 *  result's dtype within its category (bool, integer, floating-point). */
template <Number S> Tensor operand(S value) {
  if constexpr (std::is_integral_v<S>)
    return scalar_operand(static_cast<std::int64_t>(value));
  else
    return scalar_operand(static_cast<double>(value));
}

}  // namespace mezzo
