// ScaledOptimizer: the overflow state of one optimizer, which GradScaler and scale_loss share.
// See also: loss_scaler.h (the scale that its overflows move).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "../../optim/optimizer.h"
#include "loss_scaler.h"

namespace mezzo::amp {

/** The overflow state of one optimizer. Its gradients are unscaled, which raises the flag for a
 *  non-finite one; the step is taken, or skipped if the flag is raised; then the flag is reset. */
class ScaledOptimizer : public optim::StepObserver,
                        public std::enable_shared_from_this<ScaledOptimizer> {
 public:
  /** Adds the optimizer to those of a session or a GradScaler. */
  ScaledOptimizer(optim::Optimizer& optimizer, OptimizerTable& all);

  /** Returns the optimizer; null after it was destroyed or detached. */
  optim::Optimizer* optimizer() const;
  /** Returns true between GradScaler's unscale_() or step() and update(). */
  bool in_use() const { return unscaled || stepped; }
  /** Throws DivergenceError after too many skips: names the first non-finite gradient that is
   *  present. */
  void skips_found(optim::Optimizer& optimizer, std::int64_t skips,
                   std::int64_t diverged_after) override;

  std::shared_ptr<optim::DeviceStepState> clock;  // of the optimizer; null after it was detached
  std::size_t index;                              // in the table
  std::string name;                               // in messages
  LossScaler* scaler = nullptr;                   // of the latest step
  optim::FoundInf found = {};                     // raised: the next step must be skipped
  // unscaled: gradients were unscaled, since the last step under scale_loss, else since update().
  // The others are GradScaler's: step() was called, and a gradient was used, since update().
  bool unscaled = false, stepped = false, had_gradients = false;
};

/** Throws for a call at a wrong point of the iteration. Errors: StateError. */
[[noreturn]] void refuse(std::string_view op, std::string what, std::string hint = {});

/** Moves a flag to the memory of a device, and returns it. An undefined one becomes a reset one. */
const optim::FoundInf& move_to(Device device, optim::FoundInf& found);

}  // namespace mezzo::amp
