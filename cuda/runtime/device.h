// The CUDA devices as a Backend: allocators, streams and copies.
#pragma once

#include "../../tensor/device/backend.h"
#include "../../tensor/memory/caching_allocator.h"
#include "queues.h"
#include "runtime.h"

namespace mezzo::gpu {

/** Finds the devices, creates their allocators and registers the backend. Never fails: without a
 *  device the backend stores the reason. */
void start_devices();

/** Returns this thread's current stream on a device and makes the device current. Every op and copy
 *  uses it. A freed block can therefore serve the next op in the same stream without waiting. */
runtime::Stream current_stream(Device device);

const CudaQueues& queues();

/** Returns the allocator of a device. */
CachingAllocator& allocator_of(Device device);

}  // namespace mezzo::gpu
