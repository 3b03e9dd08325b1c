// Whether the emulated machine has cuDNN: without it the kernels of our own do all convolutions.
// Sees: ../../tensor/macros.h.
// Read next: dnn.cpp.
#pragma once

#include "../../tensor/macros.h"

namespace mezzo::emulator {

MZ_API bool has_dnn();
MZ_API void set_has_dnn(bool has);

}  // namespace mezzo::emulator
