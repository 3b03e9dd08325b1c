// The only entry to the GPU room: finds the devices and attaches the CUDA kernels to the rows of the ops.
// Sees: nothing.
// Read next: register.cpp, attach.h.
#pragma once

namespace mezzo::gpu {

/** Makes the devices known and attaches every CUDA kernel of this build to its op's row; called once, when the first thing is asked of a device.
 *  It is an explicit call because the linker drops self-registering objects of a static library. The rows it leaves alone answer a call on
 *  a CUDA tensor with "no CUDA kernel in this build". Never fails: where there is no device, Device::parse says why. */
void register_cuda_kernels();

}  // namespace mezzo::gpu
