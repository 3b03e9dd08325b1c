// C++ numbers as operands.
// Sees: tensor.
// Read next: operators.h.
#pragma once

#include <type_traits>

#include "../../tensor/tensor.h"

namespace mezzo {

template <class S>
concept Number = std::is_arithmetic_v<S>;

/** A C++ number as operand. It enters the arithmetic unrounded and never decides a dtype within its category (OPS.md 9.1). */
template <Number S> Tensor operand(S value) {
  if constexpr (std::is_integral_v<S>)
    return scalar_operand(static_cast<std::int64_t>(value));
  else
    return scalar_operand(static_cast<double>(value));
}

}  // namespace mezzo
