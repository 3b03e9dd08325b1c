// Processes that train copies of one model agree on overflows.
#pragma once

#include <vector>

#include "../../autograd/gradient_receiver.h"
#include "../../optim/optimizer.h"
#include "loss_scaler.h"

namespace mezzo::amp {

/** What reduces gradients over several processes; empty in one process. */
using Receivers = std::vector<GradientReceiver*>;

/** Adds the receivers of an optimizer's parameters, each once. */
void add_receivers(const optim::Optimizer& optimizer, Receivers& receivers);

/** Raises `found` if another process that shares gradients raised its own, so that all take or skip
 *  the step. Returns true if this or another process has gradients. Call it in all processes once
 *  the flag is complete, before a step or the scale depends on it. Does nothing without receivers.
 *  One message of 32 bytes; waits for a flag on a device. Errors: CommError if the processes have
 *  different loss scales. */
bool agree(const Receivers& receivers, LossScaler& scaler, const optim::FoundInf& found,
           bool has_gradients = true);

}  // namespace mezzo::amp
