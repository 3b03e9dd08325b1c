// Registration in a build without CUDA: no kernels and no devices.
#include "register.h"

namespace mezzo::gpu {

void register_cuda_kernels() {}

}  // namespace mezzo::gpu
