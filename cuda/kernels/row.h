// kernel_slot: where a kernel file puts its kernels.
// Sees: ../../tensor/registry.h.
// Read next: copy.cu.
#pragma once

#include "../../tensor/registry.h"

namespace mezzo::gpu {

/** The place for an op's CUDA kernel in its row. */
template <class Op> KernelFn& kernel_slot() {
  return find_op(Op::traits.name)->kernel[static_cast<std::size_t>(DeviceKind::cuda)];
}

/** Attaches a kernel that takes the op's attributes by their type. */
template <class Op, void (*kernel)(Inputs in, Outputs out, const AttrsOf<Op>& attrs)> void attach() {
  kernel_slot<Op>() = [](const OpRow&, Inputs in, Outputs out, const void* attrs) {
    kernel(in, out, *static_cast<const AttrsOf<Op>*>(attrs));
  };
}

}  // namespace mezzo::gpu
