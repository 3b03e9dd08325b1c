// DivergenceError: thrown when too many consecutive steps overflow.
#pragma once

#include <string>

#include "../../optim/optimizer.h"
#include "../../tensor/core/error.h"

namespace mezzo::amp {

/** Too many consecutive steps were skipped. The message names the first non-finite gradient and
 *  the index of the element. */
struct MZ_API DivergenceError : AmpError {
  using AmpError::AmpError;
};

/** Throws DivergenceError after `count` skipped steps. `who` names the optimizer in the message.
 *  Searches the present gradients for the first non-finite element. */
[[noreturn]] MZ_API void fail_diverged(optim::Optimizer& optimizer, const std::string& who,
                                       double loss_scale, std::int64_t count);

}  // namespace mezzo::amp
