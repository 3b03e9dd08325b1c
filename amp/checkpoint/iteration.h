// Checks that a session is between two iterations: a checkpoint holds no gradients and no pending
// skips.
#pragma once

#include <string_view>

#include "../session_core.h"

namespace mezzo::amp {

/** Throws if an iteration is unfinished. Gradients that a step has used do not count. Errors:
 *  StateError that says what is unfinished and how to finish it. */
void require_between_iterations(std::string_view op, const SessionCore& session);
/** Throws inside a scale_loss scope. Errors: StateError. */
void require_no_scope(std::string_view op, const SessionCore& session);
/** Drops all gradients and all state that is pending for a step. No scope may be open. */
void forget_iteration(SessionCore& session);

}  // namespace mezzo::amp
