// The only entry to the GPU room: attaches the CUDA kernels to the rows of the ops.
// Sees: nothing.
// Read next: register.cpp.
#pragma once

namespace mezzo::gpu {

/** Attaches every CUDA kernel of this build to its op's row; called once, beside register_cpu_kernels().
 *  It is an explicit call because the linker drops self-registering objects of a static library. The rows it leaves
 *  alone answer a call on a CUDA tensor with "no CUDA kernel in this build". */
void register_cuda_kernels();

}  // namespace mezzo::gpu
