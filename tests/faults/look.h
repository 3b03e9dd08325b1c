// look(): records the state that a failed call must not change, as named byte strings.
#pragma once

#include "sweep.h"

namespace faults {

void look(State& state, const std::string& name, const Tensor& x);
void look(State& state, const std::string& name, double x);
/** Records a tensor and its gradient. */
void look_at_leaf(State& state, const std::string& name, const Tensor& x);
/** Records parameters, buffers, gradients, hooks and training modes. */
void look(State& state, const nn::Module& model);
/** Records parameters, masters, the gradients of both, optimizer states, step counts, options. */
void look(State& state, const optim::Optimizer& optimizer);
void look(State& state, const amp::Session& session);
void look(State& state, const amp::GradScaler& scaler);
void look(State& state, const optim::Scheduler& schedule);
/** Returns a directory for files. It is removed when the process that called this first exits, so
 *  that a killed child leaves nothing behind. */
const std::string& scratch();
/** Records the calling thread's generator. */
void look_at_generator(State& state);

}  // namespace faults
