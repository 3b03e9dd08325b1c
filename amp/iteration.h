// Whether a training stands between two iterations, where checkpoints are saved, or amid one, where gradients and skips wait that nobody saves.
// Sees: session_core.h, optimizer_link.h.
// Read next: iteration.cpp, checkpoint.h.
#pragma once

#include <string_view>

#include "session_core.h"

namespace mezzo::amp {

/** Errors: StateError that says what is unfinished and how to finish it. Gradients that a step has used are nothing unfinished. */
void require_between_iterations(std::string_view op, const SessionCore& session);
/** Errors: StateError inside an open scope. */
void require_no_scope(std::string_view op, const SessionCore& session);
/** Drops all gradients, and whatever waits for a step. No scope is open. */
void forget_iteration(SessionCore& session);

}  // namespace mezzo::amp
