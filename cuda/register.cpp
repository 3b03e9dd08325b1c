// Registration in a build without CUDA kernels, which today is every build: all rows keep their CPU kernel alone.
// Sees: register.h.
// Read next: cuda/meson.build, which decides what this room is built from.
#include "register.h"

namespace mezzo::gpu {

void register_cuda_kernels() {}

}  // namespace mezzo::gpu
