// trained_row(): rows over something that holds a net and its optimizer.
// Sees: sweep.h, ../support/optimizers.h.
// Read next: rows_sessions.cpp, rows_scalers.cpp (its users).
#pragma once

#include "../support/optimizers.h"
#include "sweep.h"

namespace faults {

/** Makes a T with an optimizer of the kind, prepares it, and sweeps the call. `state` reads what may
 *  not change. */
template <class T>
Row trained_row(const std::string& name, const std::function<void(T&)>& prepare,
                const std::function<void(T&)>& call, const optimizers::Kind& kind = optimizers::kinds()[2],
                const std::function<State(const T&)>& state = &T::state) {
  return {name, [=, &kind] {
            const auto made = std::make_shared<T>(kind);
            prepare(*made);
            return Subject{[=] { call(*made); }, [=] { return state(*made); }};
          }};
}

}  // namespace faults
