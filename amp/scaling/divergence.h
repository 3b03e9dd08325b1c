// DivergenceError: thrown when too many consecutive steps overflow, or when a gradient is not
// finite at a level that does not skip steps.
#pragma once

#include "../../tensor/core/error.h"

namespace mezzo::amp {

/** Too many consecutive steps were skipped, or, at a level that skips none, gradients are not
 *  finite. The message names the step, the first non-finite gradient with the index of the element,
 *  and since when the loss is not finite. */
struct MZ_API DivergenceError : AmpError {
  using AmpError::AmpError;
};

}  // namespace mezzo::amp
