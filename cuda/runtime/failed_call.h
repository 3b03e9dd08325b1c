// Failures of driver calls. The first failure that breaks a device permanently is stored, and every
// later error quotes it.
#pragma once

#include <string>

#include "place.h"

namespace mezzo::gpu {

/** Throws CudaError for a call that failed with `what`. `lasting`: all later calls fail too. */
[[noreturn]] void fail_call(const char* call, const std::string& what, bool lasting,
                            CallPlace place);

/** Clears the stored failure, for tests with emulated devices. */
void forget_broken_device();

}  // namespace mezzo::gpu
