// Registration of CUDA kernels: kernel_slot and attach, and the function of each source in
// kernels/list.inc that registers its kernels.
#pragma once

#include "../tensor/core/registry.h"

namespace mezzo::gpu {

/** Returns the entry for an op's CUDA kernel in its op info. */
template <class Op> KernelFn& kernel_slot() {
  return find_op(Op::traits.name)->kernel[static_cast<std::size_t>(DeviceKind::cuda)];
}

/** Registers a kernel that takes the op's typed attributes. */
template <class Op, void (*kernel)(Inputs in, Outputs out, const AttrsOf<Op>& attrs)>
void attach() {
  kernel_slot<Op>() = [](const OpInfo&, Inputs in, Outputs out, const void* attrs) {
    kernel(in, out, *static_cast<const AttrsOf<Op>*>(attrs));
  };
}

#define MZ_KERNELS(name) void attach_##name();
#define MZ_HOST_KERNELS(name) void attach_##name();
#define MZ_DEVICE_CODE(name)
#include "kernels/list.inc"
#undef MZ_KERNELS
#undef MZ_HOST_KERNELS
#undef MZ_DEVICE_CODE

}  // namespace mezzo::gpu
