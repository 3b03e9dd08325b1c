// SkipWatch: looks now and then, without waiting, at what became of an optimizer's deferred steps: training that only ever overflows is to end.
// Sees: divergence.h; optim.
// Read next: skip_watch.cpp, grad_scaler.h, optimizer_link.h (who keep one).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "../optim/optimizer.h"

namespace mezzo::amp {

class MZ_API SkipWatch {
 public:
  /** Steps between two looks. */
  static constexpr std::int64_t kPollSteps = 100;

  /** Counts one deferred step; every kPollSteps of them begins to read the record, and acts on one that has arrived since.
   *  Errors: DivergenceError. */
  void tick(optim::Optimizer& optimizer, const std::string& who, const std::function<double()>& scale);
  /** Reads the record now, waiting for the device, and acts on it. Errors: DivergenceError. */
  void look(optim::Optimizer& optimizer, const std::string& who, const std::function<double()>& scale);
  /** Skips that were found since the last call. */
  std::int64_t take_new_skips();

 private:
  void act(const optim::StepRecord& record, optim::Optimizer& optimizer, const std::string& who,
           const std::function<double()>& scale);

  std::int64_t ticks_ = 0;
  std::int64_t seen_skips_ = 0, seen_divergences_ = 0, new_skips_ = 0;
  std::unique_ptr<Readback> on_its_way_;
};

}  // namespace mezzo::amp
