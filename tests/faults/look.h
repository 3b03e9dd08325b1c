// look(): what a failed call may not change, as bytes by name.
// Sees: sweep.h.
// Read next: rows_optimizers.cpp (a user).
#pragma once

#include "sweep.h"

namespace faults {

void look(State& state, const std::string& name, const Tensor& x);
void look(State& state, const std::string& name, double x);
/** A tensor and its gradient. */
void look_at_leaf(State& state, const std::string& name, const Tensor& x);
/** Parameters and buffers as they lie there, gradients, what is attached, modes. */
void look(State& state, const nn::Module& model);
/** Parameters, masters, gradients of both, states, counts, options. */
void look(State& state, const optim::Optimizer& optimizer);
void look(State& state, const amp::Session& session);
void look(State& state, const amp::GradScaler& scaler);
void look(State& state, const optim::Scheduler& schedule);
/** A directory for files, which goes with the process that asked first: a child that is killed
 *  leaves nothing behind. */
const std::string& scratch();
/** The thread's own. */
void look_at_generator(State& state);

}  // namespace faults
