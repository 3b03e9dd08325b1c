// Divides gradients by the loss scale, finds non-finite ones, and lets processes that train copies
// of one model agree on them.
#pragma once

#include <string_view>
#include <vector>

#include "loss_scaler.h"
#include "scope_gradients.h"

namespace mezzo::amp {

/** Moves a flag to the memory of a device, and returns it. An undefined one becomes a reset one. */
const optim::FoundInf& move_to(Device device, optim::FoundInf& found);

/** Computes the sums, with one pass for all that share device and factors; without `out` only
 *  checks x. Raises `found`, whose flag may be undefined, for new non-finite gradients. Waits for
 *  devices other than that of the flag. */
void unscale(std::vector<GradientSum> sums, const optim::FoundInf& found);

/** Raises `found` if another process that shares gradients raised its own, so that all take or skip
 *  the step. Returns true if this or another process has gradients. Call it in all processes once
 *  the flag is complete, before a step or the scale depends on it. Does nothing without receivers.
 *  One message of 48 bytes; waits for a flag on a device. Errors: CommError if the processes have
 *  different loss scales. */
bool agree(const Receivers& receivers, LossScaler& scaler, const optim::FoundInf& found,
           bool has_gradients = true);

}  // namespace mezzo::amp
