// Failures of the driver: what broke a device for good is remembered, and every later error names
// it.
// Sees: place.h.
// Read next: failed_call.cpp, runtime.cpp and ../tests/emulator/runtime.cpp (who fail).
#pragma once

#include <string>

#include "place.h"

namespace mezzo::gpu {

/** Throws CudaError for a call that failed with `what`; `lasting`: all later calls fail too. */
[[noreturn]] void fail_call(const char* call, const std::string& what, bool lasting, CallPlace place);

/** For tests, whose devices can be mended. */
void forget_broken_device();

}  // namespace mezzo::gpu
