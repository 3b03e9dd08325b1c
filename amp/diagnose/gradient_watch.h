// GradientWatch: looks for non-finite gradients in some steps of an optimizer, at levels that do
// not check every step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "../../optim/step/tensor_list.h"
#include "../../tensor/device/backend.h"

namespace mezzo::optim {
class Optimizer;
}

namespace mezzo::amp {

class AmpOptimizerState;

/** Checks the gradients of every kEvery-th step in one pass that reads them. On a device the host
 *  does not wait: a later step reads the result when it has arrived. A step whose loss is on the
 *  CPU and not finite is checked at once. */
class GradientWatch {
 public:
  static constexpr std::int64_t kEvery = 50;

  /** Counts a step, checks the gradients if it is time to, and reports an earlier check whose
   * result has arrived. Where the losses of the step are known, it is time if one is not finite:
   * finite ones show that the weights are finite still. Call it where the optimizer's gradients are
   *  unscaled: before an update, or after a replay. Errors: DivergenceError that names the step and
   *  the first non-finite gradient. */
  void step(AmpOptimizerState& state, std::optional<bool> finite_losses);

 private:
  void look(AmpOptimizerState& state, bool waits);

  std::int64_t steps_ = 0;           // counted
  std::int64_t checked_ = 0;         // the step of the latest check
  optim::FoundInf found_;            // of that check
  std::unique_ptr<AsyncRead> read_;  // of found_, not looked at yet; may be null
};

}  // namespace mezzo::amp
