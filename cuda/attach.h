// The functions that register the CUDA kernels of the ops, one per source in kernels/list.inc.
#pragma once

namespace mezzo::gpu {

#define MZ_KERNELS(name) void attach_##name();
#define MZ_HOST_KERNELS(name) void attach_##name();
#define MZ_DEVICE_CODE(name)
#include "kernels/list.inc"
#undef MZ_KERNELS
#undef MZ_HOST_KERNELS
#undef MZ_DEVICE_CODE

}  // namespace mezzo::gpu
