// fastest(): times the algorithms of a library on the device.
#pragma once

#include <optional>
#include <vector>

#include "../tensor/core/error.h"
#include "runtime/runtime.h"

namespace mezzo::gpu {

/** A pair of timed events. */
class Stopwatch {
 public:
  Stopwatch() = default;
  ~Stopwatch() {
    runtime::destroy_event(end_);
    runtime::destroy_event(begin_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /** Returns the milliseconds of the work that f enqueues in the stream, and waits for it. */
  template <class F> float time(runtime::Stream stream, const F& f) {
    runtime::record(begin_, stream);
    f();
    runtime::record(end_, stream);
    runtime::synchronize_event(end_);
    return runtime::elapsed(begin_, end_);
  }

 private:
  const runtime::Event begin_ = runtime::create_event(true), end_ = runtime::create_event(true);
};

/** Returns the algorithm with the shortest time; nothing if all fail. launch(algorithm, times)
 *  enqueues the work `times` times. One that fails is skipped: `library` has failed then. Errors:
 *  CudaError where the device is broken. */
template <class Algorithm, class Launch>
std::optional<Algorithm> fastest(const std::vector<Algorithm>& algorithms, const char* library,
                                 runtime::Stream stream, const Launch& launch) {
  constexpr int kTrials = 5;
  Stopwatch watch;
  std::optional<Algorithm> best;
  float least = 0;
  for (const Algorithm& algorithm : algorithms) {
    try {
      launch(algorithm, 1);
      const float time = watch.time(stream, [&] { launch(algorithm, kTrials); });
      if (best && time >= least) continue;
      best = algorithm;
      least = time;
    } catch (const CudaError&) {
      runtime::recover(library);
    }
  }
  return best;
}

}  // namespace mezzo::gpu
