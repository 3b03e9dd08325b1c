// Capture: a training step that is being recorded instead of run, and the interface for objects
// whose host state must follow the replays of a captured step.
// See also: ../../cuda/runtime/graph.h (records steps).
#pragma once

#include <memory>
#include <string_view>

#include "../core/error.h"
#include "../random/philox_stream.h"
#include "device.h"

namespace mezzo {

class Tensor;
struct Generator;

/** An object that takes part in a captured step and also has state on the host. */
class MZ_API CaptureParticipant {
 public:
  virtual ~CaptureParticipant();
  /** Called before each replay: uploads host state that has changed to the device. Errors:
   *  StateError if the step cannot be replayed any more. */
  virtual void before_replay() = 0;
  /** Called after each replay was enqueued: from then on the state on the device is newer than that
   *  on the host. */
  virtual void after_replay() = 0;
  /** Called at the end of the capture, while it is still recording: adds the last work of the
   *  step. */
  virtual void finish_capture() {}
  /** Called if the capture fails: no work of the step has run or will run. */
  virtual void abandon_capture() noexcept {}
};

/** Thrown if a step cannot be captured yet because something in it must run once before. */
struct MZ_API CapturePostponed : StateError {
  using StateError::StateError;
};

/** A scope in which this thread's allocations do not come from the pool of the step that is being
 *  captured. For memory that the host writes between replays, which the step must not reuse. */
class MZ_API NoCapturePool {
 public:
  NoCapturePool();
  ~NoCapturePool();
  NoCapturePool(const NoCapturePool&) = delete;
  NoCapturePool& operator=(const NoCapturePool&) = delete;

  /** Returns true inside such a scope. */
  static bool wanted();

 private:
  bool outer_;
};

/** A capture in progress on this thread. */
class MZ_API Capture {
 public:
  /** Returns this thread's capture; null if there is none. */
  static Capture* current();
  /** Returns this thread's capture if it records the work of the device; else null. */
  static Capture* current(Device device);
  /** Throws if a step is being captured and `prepared` is false. Errors: CapturePostponed. */
  static void require_prepared(std::string_view op, bool prepared, std::string_view what);

  /** Throws if a step is being captured on the device of `x` or on `to`, because copies between
   *  device and host are not part of a replay. Errors: StateError. */
  static void refuse_crossing(std::string_view op, const Tensor& x, Device to);

  /** Returns the device that is captured. */
  virtual Device device() const = 0;
  /** Adds a participant; it is called once per replay, even if it joins several times. */
  virtual void join(std::shared_ptr<CaptureParticipant> participant) = 0;
  /** Returns the next random stream of a generator. At each replay, its draw counts from the
   *  generator's position at that time. */
  virtual PhiloxStream next_stream(Generator& generator) = 0;

 protected:
  ~Capture() = default;
  /** Sets this thread's capture; null ends it. */
  static void set_current(Capture* capture);
};

}  // namespace mezzo
