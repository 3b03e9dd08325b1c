// Functions that order work between queues that share memory.
#pragma once

#include "queues.h"

namespace mezzo {

class Tensor;

/** Returns the queue that this thread's work for the device is put into; null on the CPU, which has
 *  no queues. */
MZ_API DeviceQueue current_queue(Device device);

/** A queue and its device. */
struct QueueOf {
  Device device;
  DeviceQueue queue = nullptr;
};

/** Orders all further work of `later` after the work that `earlier` holds now, without blocking the
 *  host. Errors: CudaError. */
MZ_API void put_behind(const Queues& queues, const QueueOf& later, const QueueOf& earlier);

/** Lets this thread's current queue use what `writer` has written to x: orders its further work
 *  after that of `writer`, and records the use of x's memory. Errors: CudaError. */
MZ_API void share_with_current(const Tensor& x, DeviceQueue writer);

}  // namespace mezzo
