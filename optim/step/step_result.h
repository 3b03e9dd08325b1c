// StepResult: what a step of an optimizer did. On a device it is read when it is looked at.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "../../tensor/core/macros.h"

namespace mezzo::optim {

class StepState;

/** The result of a step. If the overflow flag that decides on the step is in the memory of a
 *  device, the result is read from there when it is first looked at. */
class MZ_API StepResult {
 public:
  /** What a step did. */
  enum Value : std::uint8_t {
    stepped,   // the parameters have been updated
    skipped,   // mixed precision found an overflow; nothing has changed
    no_grads,  // no parameter has a gradient
  };
  // The number of later steps after which a result that was not looked at is dropped.
  static constexpr int kKept = 128;

  StepResult(Value value = stepped) : value_(value) {}  // NOLINT: implicit on purpose
  /** A result in device memory: of the step after which the optimizer has taken or skipped `steps`
   *  steps; -1 for a step that is being captured. */
  StepResult(std::shared_ptr<StepState> state, std::int64_t steps)
      : value_(stepped), state_(std::move(state)), steps_(steps) {}

  /** Returns the value. Waits for the device if it is not known. Errors: StateError in a captured
   *  step, where it is never known (see Optimizer::last_result); StateError if the optimizer has
   *  taken kKept more steps; amp::DivergenceError after too many skips. */
  Value value() const;
  /** Returns value(), for comparisons and switch. */
  operator Value() const { return value(); }  // NOLINT: implicit on purpose
  /** Returns true if value() does not wait. */
  bool is_known() const { return !state_; }

 private:
  mutable Value value_;
  mutable std::shared_ptr<StepState> state_;  // null if the value is known
  std::int64_t steps_ = 0;
};

/** Returns "stepped", "skipped" or "no_grads". */
MZ_API std::string_view name(StepResult::Value result);

}  // namespace mezzo::optim
