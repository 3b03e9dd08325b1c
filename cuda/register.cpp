#include "register.h"

#include "attach.h"
#include "runtime/device.h"

namespace mezzo::gpu {

void register_cuda_kernels() {
#define MZ_KERNELS(name) attach_##name();
#define MZ_HOST_KERNELS(name) attach_##name();
#define MZ_DEVICE_CODE(name)
#include "kernels/list.inc"
#undef MZ_KERNELS
#undef MZ_HOST_KERNELS
#undef MZ_DEVICE_CODE
  start_devices();
}

}  // namespace mezzo::gpu
