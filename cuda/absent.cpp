// Registration in a build without the GPU room: all rows keep their CPU kernel alone, and no device is known.
// Sees: register.h.
// Read next: meson.build, which decides what this room is built from.
#include "register.h"

namespace mezzo::gpu {

void register_cuda_kernels() {}

}  // namespace mezzo::gpu
