// Instantiates the backward rule of every op in a list; included by one source file per list.
// Sees: elementwise_rule.h.
// Read next: elementwise_functions.cpp.
#pragma once

#include <array>

#include "../../tensor/elementwise.h"
#include "../elementwise_rule.h"

namespace mezzo {

template <class Op> constexpr BackwardFn rule_of() {
  if constexpr (Op::traits.differentiable)
    return &elementwise_backward<Op>;
  else
    return nullptr;
}

/** Addresses of the rules of the ops in the list. A source file that stores them in a variable makes the compiler emit the rules there. */
template <class... Ops> constexpr std::array<BackwardFn, sizeof...(Ops)> all_rules(type_list<Ops...>) {
  return {rule_of<Ops>()...};
}

}  // namespace mezzo
