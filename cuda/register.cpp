#include "register.h"

#include "runtime/device.h"

#define MZ_OPS(name)
#define MZ_DEVICE_CODE(name)

namespace mezzo::gpu {

// The function of each source of kernels that registers them.
#define MZ_KERNEL_OPS(name) void attach_##name();
#define MZ_KERNELS(name) void attach_##name();
#define MZ_HOST_KERNELS(name) void attach_##name();
#include "../tensor/ops/list.inc"
#include "kernels/list.inc"
#undef MZ_KERNEL_OPS
#undef MZ_KERNELS
#undef MZ_HOST_KERNELS

void register_cuda_kernels() {
#define MZ_KERNEL_OPS(name) attach_##name();
#define MZ_KERNELS(name) attach_##name();
#define MZ_HOST_KERNELS(name) attach_##name();
#include "../tensor/ops/list.inc"
#include "kernels/list.inc"
#undef MZ_KERNEL_OPS
#undef MZ_KERNELS
#undef MZ_HOST_KERNELS
  start_devices();
}

}  // namespace mezzo::gpu

#undef MZ_OPS
#undef MZ_DEVICE_CODE
