// Shared memory beyond what every kernel has. Parsed by g++ and by nvcc.
#pragma once

#include "runtime.h"

namespace mezzo::gpu::runtime {

/** Allows blocks of a kernel, before it is launched, more than 48 KiB of dynamic shared memory.
 *  Devices of compute capability 8.0 and newer have 99 KiB or more. Errors: CudaError, also for
 *  more than the device has. */
void allow_shared(const void* kernel, std::size_t bytes, Place place = Place::current());

}  // namespace mezzo::gpu::runtime
