// Queues: the streams of work of the devices, and marks in them, for those who have to order things by them but know no CUDA.
// Sees: device.h.
// Read next: caching_allocator.h and ../cuda/stream.h (users), ../cuda/queues.h (CUDA's).
#pragma once

#include "device.h"
#include "macros.h"

namespace mezzo {

/** A queue of a device's work, which runs in the order it was put in; null is the device's main one. */
using Queue = void*;
/** A point in a queue. */
using Mark = void*;

/** The queues of all devices of a kind. Errors of all that is not noexcept: CudaError. May be called from any thread. */
class MZ_API Queues {
 public:
  /** Where this thread's work goes. */
  virtual Queue current(Device device) const = 0;
  virtual void set_current(Device device, Queue queue) const noexcept = 0;
  /** One of the device's side queues, each in turn; their number is limited. */
  virtual Queue next_side(Device device, bool urgent) const = 0;
  /** What the device's own interface calls it: cudaStream_t. */
  virtual void* handle(Device device, Queue queue) const = 0;
  /** Whether all its work is done; never waits. */
  virtual bool is_idle(Device device, Queue queue) const = 0;
  /** Waits on the host until all its work is done. Errors: what waits as a deferred error too. */
  virtual void synchronize(Device device, Queue queue) const = 0;
  /** The same for all queues of the device. */
  virtual void synchronize(Device device) const = 0;

  /** A mark for queues of this device. */
  virtual Mark make_mark(Device device, bool timed) const = 0;
  virtual void drop_mark(Mark mark) const noexcept = 0;
  /** Puts it behind the queue's work, wherever it was before. */
  virtual void place(Mark mark, Device device, Queue queue) const = 0;
  /** What is put into the queue from now on waits for the mark; the host does not. */
  virtual void hold(Device device, Queue queue, Mark mark) const = 0;
  /** Never waits. */
  virtual bool reached(Mark mark) const = 0;
  /** Waits on the host. */
  virtual void wait_for(Mark mark) const = 0;
  /** Milliseconds between two timed marks that were reached. */
  virtual float between(Mark begin, Mark end) const = 0;
  /** Whether the queue's work is being recorded instead of run, so that a mark in it would never be reached. */
  virtual bool is_recorded(Device device, Queue queue) const = 0;

 protected:
  ~Queues() = default;
};

}  // namespace mezzo
