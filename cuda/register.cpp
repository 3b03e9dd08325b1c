#include "register.h"

#include "runtime/device.h"

#define MZ_OPS(family, name)
#define MZ_DEVICE_CODE(family, name)

namespace mezzo::gpu {

// The function of each source of kernels that registers them.
#define MZ_ELEMENTWISE_OPS(name, list) void attach_elementwise_##name();
#define MZ_KERNEL_OPS(family, name) void attach_##name();
#define MZ_KERNELS(family, name) void attach_##name();
#define MZ_HOST_KERNELS(family, name) void attach_##name();
#include "../tensor/ops/list.inc"
#include "kernels/list.inc"
#undef MZ_ELEMENTWISE_OPS
#undef MZ_KERNEL_OPS
#undef MZ_KERNELS
#undef MZ_HOST_KERNELS

void register_cuda_kernels() {
#define MZ_ELEMENTWISE_OPS(name, list) attach_elementwise_##name();
#define MZ_KERNEL_OPS(family, name) attach_##name();
#define MZ_KERNELS(family, name) attach_##name();
#define MZ_HOST_KERNELS(family, name) attach_##name();
#include "../tensor/ops/list.inc"
#include "kernels/list.inc"
#undef MZ_ELEMENTWISE_OPS
#undef MZ_KERNEL_OPS
#undef MZ_KERNELS
#undef MZ_HOST_KERNELS
  start_devices();
}

}  // namespace mezzo::gpu

#undef MZ_OPS
#undef MZ_DEVICE_CODE
