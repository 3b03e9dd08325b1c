// CommError: processes that train together disagree, or do not answer.
#pragma once

#include "../core/error.h"

namespace mezzo {

/** Processes that work together disagree, one of them failed or does not answer, or the library
 *  that connects them reports an error. It is final: all later calls that communicate throw it
 *  again. */
struct MZ_API CommError : Error {
  using Error::Error;
};

}  // namespace mezzo
