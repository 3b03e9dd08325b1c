// Which device the emulated one passes for: kernels for newer ones give way to others on an older one.
// Sees: ../../tensor/macros.h.
// Read next: runtime.cpp.
#pragma once

#include "../../tensor/macros.h"

namespace mezzo::emulator {

/** 10 times the major number and the minor of the compute capability; 90 until then. */
MZ_API void set_compute_capability(int capability);

}  // namespace mezzo::emulator
