// register_cuda_kernels(): the entry point of this folder, in builds with and without CUDA.
#pragma once

namespace mezzo::gpu {

/** Registers the devices and attaches every CUDA kernel of this build to its op's info. It is
 *  called once, when a device is first requested. The call is explicit because the linker drops
 *  self-registering objects of a static library. An op without a CUDA kernel answers a call on a
 *  CUDA tensor with "no CUDA kernel in this build". Never fails: without a device, Device::parse
 *  reports the reason. */
void register_cuda_kernels();

}  // namespace mezzo::gpu
