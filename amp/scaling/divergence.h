// DivergenceError: thrown when too many consecutive steps overflow.
#pragma once

#include "../../tensor/core/error.h"

namespace mezzo::amp {

/** Too many consecutive steps were skipped. The message names the first non-finite gradient and
 *  the index of the element. */
struct MZ_API DivergenceError : AmpError {
  using AmpError::AmpError;
};

}  // namespace mezzo::amp
