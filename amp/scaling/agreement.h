// Processes that train copies of one model agree on overflows.
#pragma once

#include "../../autograd/gradient_receiver.h"
#include "../../optim/optimizer.h"
#include "loss_scaler.h"

namespace mezzo::amp {

/** Returns what reduces an optimizer's gradients over several processes: the receiver of its first
 *  parameter that has one; null if none has. */
GradientReceiver* receiver_of(const optim::Optimizer& optimizer);

/** Raises `found` if another process that shares gradients raised its own, so that all take or skip
 *  the step. Returns true if this or another process has gradients. Call it in all processes once
 *  the flag is complete, before a step or the scale depends on it. Does nothing without a receiver.
 *  One message of 32 bytes; waits for a flag on a device. Errors: CommError if the processes have
 *  different loss scales. */
bool agree(GradientReceiver* receiver, LossScaler& scaler, const optim::FoundInf& found,
           bool has_gradients = true);

}  // namespace mezzo::amp
