// Capture: a training step that is being recorded instead of run, and what has to know of it: whoever keeps numbers on the host that a replay of
// the step would not move.
// Sees: device.h, error.h, philox_stream.h.
// Read next: ../cuda/graph.h (who records), ../optim/step_clock.h (a guest).
#pragma once

#include <memory>
#include <string_view>

#include "device.h"
#include "error.h"
#include "philox_stream.h"

namespace mezzo {

class Tensor;
struct Generator;

/** A part of a captured step that lives on the host too. */
class MZ_API CaptureGuest {
 public:
  virtual ~CaptureGuest();
  /** Before each replay: brings to the device what the host has changed since. Errors: StateError where the step cannot run any more. */
  virtual void before_replay() = 0;
  /** After each replay was put into the stream: the device is ahead of the host from here on. */
  virtual void after_replay() = 0;
  /** At the end of the capture, within it: the last work that the step needs. */
  virtual void finish_capture() {}
  /** The capture came to nothing: nothing of the step has run or will. */
  virtual void abandon_capture() noexcept {}
};

/** The step cannot be captured yet: something in it has to happen once for real first. */
struct MZ_API CapturePostponed : StateError {
  using StateError::StateError;
};

/** Memory that this thread takes while it lives is no part of a step that is being captured: for what the host writes to between replays, which
 *  the step itself must not use for anything else. */
class MZ_API LastingMemory {
 public:
  LastingMemory();
  ~LastingMemory();
  LastingMemory(const LastingMemory&) = delete;
  LastingMemory& operator=(const LastingMemory&) = delete;

  static bool wanted();

 private:
  bool outer_;
};

/** A recording under way on this thread. */
class MZ_API Capture {
 public:
  /** This thread's; null outside of one. */
  static Capture* current();
  /** Errors: CapturePostponed, while a step is captured; nothing else happens without one. */
  static void require_prepared(std::string_view op, bool prepared, std::string_view what);

  /** Errors: StateError where a step is being captured on one of the devices: what crosses between it and the host is not part of a replay. */
  static void refuse_crossing(std::string_view op, const Tensor& x, Device to);

  virtual Device device() const = 0;
  /** `guest` is told of each replay, once however often it joins. */
  virtual void join(std::shared_ptr<CaptureGuest> guest) = 0;
  /** The next stream of a generator: its draw counts from where the generator stands at a replay. */
  virtual PhiloxStream next_stream(Generator& generator) = 0;

 protected:
  ~Capture() = default;
  /** Makes it the thread's, or ends that with null. */
  static void set_current(Capture* capture);
};

}  // namespace mezzo
