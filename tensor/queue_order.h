// Order between queues, for what several of them share without their user's doing.
// Sees: queues.h.
// Read next: queue_order.cpp, ../amp/cast_cache.cpp and ../cuda/recording.cpp (users).
#pragma once

#include "queues.h"

namespace mezzo {

class Tensor;

/** Where this thread's work for the device goes; null on the CPU, which has no queues. */
MZ_API Queue current_queue(Device device);

/** A queue, and whose it is. */
struct QueueOf {
  Device device;
  Queue queue = nullptr;
};

/** What is put into `later` from now on comes after all that `earlier` holds now; the host waits for nothing. Errors: CudaError. */
MZ_API void put_behind(const Queues& queues, const QueueOf& later, const QueueOf& earlier);

/** This thread's current queue may use what `writer` has written to x: its work comes behind, and x's memory waits for it.
 *  Errors: CudaError. */
MZ_API void share_with_current(const Tensor& x, Queue writer);

}  // namespace mezzo
