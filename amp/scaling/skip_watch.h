// SkipWatch: polls the results of an optimizer's deferred steps without waiting for the device, and
// throws DivergenceError if they all overflow.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "../../optim/optimizer.h"

namespace mezzo::amp {

/** Polls the step record of one optimizer. `who` names the optimizer in errors, `scale` returns the
 *  loss scale. */
class MZ_API SkipWatch {
 public:
  /** Number of steps between two reads. */
  static constexpr std::int64_t kPollSteps = 100;

  /** Counts one deferred step. Starts an asynchronous read of the record every kPollSteps steps,
   *  and acts on a finished one. Errors: DivergenceError. */
  void tick(optim::Optimizer& optimizer, const std::string& who,
            const std::function<double()>& scale);
  /** Reads the record if the device's is newer, and acts on it. Waits for the device. Errors:
   *  DivergenceError. */
  void look(optim::Optimizer& optimizer, const std::string& who,
            const std::function<double()>& scale);
  /** Returns the number of skips found since the last call. */
  std::int64_t take_new_skips();

 private:
  /** Adds the record's new skips. Throws DivergenceError if it has a new divergence. */
  void act(const optim::StepRecord& record, optim::Optimizer& optimizer, const std::string& who,
           const std::function<double()>& scale);

  std::int64_t ticks_ = 0;
  std::int64_t seen_skips_ = 0, seen_divergences_ = 0, new_skips_ = 0;
  std::unique_ptr<AsyncRead> read_;
};

}  // namespace mezzo::amp
