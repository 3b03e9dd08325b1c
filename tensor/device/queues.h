// Queues: the streams of the devices and marks in them, and functions that order work between them,
// for code without CUDA.
// See also: ../../cuda/runtime/queues.h (the CUDA implementation).
#pragma once

#include "../core/macros.h"
#include "device.h"

namespace mezzo {

/** A stream of device work, which runs in the order in which it was enqueued; null is the device's
 *  main queue. */
using DeviceQueue = void*;
/** A point in a queue; an event in CUDA's terms. */
using QueueMark = void*;

/** The queues of all devices of a kind. Functions that are not noexcept throw CudaError. May be
 *  called from any thread. */
class MZ_API Queues {
 public:
  /** Returns the queue that this thread's work is put into. */
  virtual DeviceQueue current(Device device) const = 0;
  /** Sets the queue that this thread's work is put into. */
  virtual void set_current(Device device, DeviceQueue queue) const noexcept = 0;
  /** Returns one of the device's side queues in turn; their number is limited. */
  virtual DeviceQueue next_side(Device device, bool urgent) const = 0;
  /** Returns the native handle of the queue: cudaStream_t. */
  virtual void* handle(Device device, DeviceQueue queue) const = 0;
  /** Returns true if all work of the queue is done, without waiting. */
  virtual bool is_idle(Device device, DeviceQueue queue) const = 0;
  /** Blocks the host until all work of the queue is done. Errors: also a pending IndexError of a
   * kernel. */
  virtual void synchronize(Device device, DeviceQueue queue) const = 0;
  /** Blocks the host until all work of all queues of the device is done. */
  virtual void synchronize(Device device) const = 0;

  /** Creates a mark for queues of this device; only `timed` marks can be used with between(). */
  virtual QueueMark make_mark(Device device, bool timed) const = 0;
  /** Destroys a mark. */
  virtual void drop_mark(QueueMark mark) const noexcept = 0;
  /** Places the mark after the queue's work so far; this replaces an earlier place. */
  virtual void place(QueueMark mark, Device device, DeviceQueue queue) const = 0;
  /** Makes all further work of the queue wait for the mark, without blocking the host. */
  virtual void hold(Device device, DeviceQueue queue, QueueMark mark) const = 0;
  /** Returns true if the device has passed the mark, without waiting. */
  virtual bool reached(QueueMark mark) const = 0;
  /** Blocks the host until the device has passed the mark. */
  virtual void wait_for(QueueMark mark) const = 0;
  /** Returns the milliseconds between two timed marks that the device has passed. */
  virtual float between(QueueMark begin, QueueMark end) const = 0;
  /** Returns true if the queue's work is being recorded instead of run, so that a mark in it would
   *  never be passed. */
  virtual bool is_recorded(Device device, DeviceQueue queue) const = 0;

 protected:
  ~Queues() = default;
};

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
