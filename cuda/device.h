// The devices of this machine as Mezzo sees them: their memory behind the allocator, their streams, copies to and from them.
// Sees: ../tensor/backend.h, queues.h, runtime.h.
// Read next: device.cpp, register.h.
#pragma once

#include "../tensor/backend.h"
#include "../tensor/caching_allocator.h"
#include "queues.h"
#include "runtime.h"

namespace mezzo::gpu {

/** Finds the devices, gives each an allocator and makes the backend known. Never fails: without a device it remembers why. */
void start_devices();

/** The stream that this thread's work on a device goes into; the device is made this thread's current one. Every op's work, its copies included, goes
 *  there: a block that one op frees can then serve the next in the same stream without waiting, since the stream runs them in that order. */
runtime::Stream current_stream(Device device);

const CudaQueues& queues();

/** The memory of a device. */
CachingAllocator& allocator_of(Device device);

}  // namespace mezzo::gpu
