// Instantiates the backward functions of all ops in a list. The build makes a source of
// gradients.cpp.in for each list, which includes this.
#pragma once

#include <array>

#include "../../core/elementwise.h"
#include "elementwise_rule.h"

namespace mezzo {

template <class Op> constexpr BackwardFn gradient_of() {
  if constexpr (Op::traits.differentiable)
    return &elementwise_backward<Op>;
  else
    return nullptr;
}

/** Returns the addresses of the backward functions of the ops in the list. A source file that
 *  stores them in a variable makes the compiler emit the functions there. */
template <class... Ops>
constexpr std::array<BackwardFn, sizeof...(Ops)> all_gradients(type_list<Ops...>) {
  return {gradient_of<Ops>()...};
}

}  // namespace mezzo
