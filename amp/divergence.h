// DivergenceError: training that only ever overflows ends with it instead of going on in silence.
// Sees: tensor; optim.
// Read next: optimizer_link.cpp, grad_scaler.cpp (who throw it).
#pragma once

#include <string>

#include "../optim/optimizer.h"
#include "../tensor/error.h"

namespace mezzo::amp {

/** Too many steps in a row were skipped. The text names the first gradient that is not finite, and where. */
struct MZ_API DivergenceError : AmpError {
  using AmpError::AmpError;
};

/** Throws it for an optimizer known as `who`, whose count of skips starts again at 0. The culprit is searched among the present gradients. */
[[noreturn]] MZ_API void fail_diverged(optim::Optimizer& optimizer, const std::string& who,
                                       double loss_scale);
/** The same after `count` deferred steps, whose count the device has restarted. */
[[noreturn]] MZ_API void fail_diverged(optim::Optimizer& optimizer, const std::string& who, double loss_scale,
                                       std::int64_t count);

}  // namespace mezzo::amp
