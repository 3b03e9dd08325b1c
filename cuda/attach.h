// Registration of CUDA kernels: kernel_slot and attach, for the attach_NAME() of each source of
// kernels, which register.cpp calls.
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

}  // namespace mezzo::gpu
