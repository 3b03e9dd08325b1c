// The compute capability of the emulated device, for tests of kernels that depend on it.
#pragma once

#include "../../tensor/core/macros.h"

namespace mezzo::emulator {

/** Sets the compute capability, as 10 * major + minor. The default is 90. */
MZ_API void set_compute_capability(int capability);

}  // namespace mezzo::emulator
