// trained_row(): rows on a type that holds a net and its optimizer.
#pragma once

#include "../support/optimizers.h"
#include "sweep.h"

namespace faults {

/** Returns a row that makes a T with an optimizer of the kind, prepares it and sweeps the call.
 *  `state` reads the state that must not change. */
template <class T>
Row trained_row(const std::string& name, const std::function<void(T&)>& prepare,
                const std::function<void(T&)>& call,
                const optimizers::Kind& kind = optimizers::kinds()[2],
                const std::function<State(const T&)>& state = &T::state) {
  return {name, [=, &kind] {
            const auto made = std::make_shared<T>(kind);
            prepare(*made);
            return Subject{[=] { call(*made); }, [=] { return state(*made); }};
          }};
}

}  // namespace faults
