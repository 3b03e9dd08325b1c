#include "loss_history.h"

#include <cmath>

#include "../../tensor/core/dispatch.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/text/text.h"

namespace mezzo::amp {

namespace {

/** Returns the value of a tensor of one element on the CPU. Costs less than item(), once a step. */
double value_of(const Tensor& loss) {
  if (loss.dtype() != f32) return loss.item<double>();
  return *static_cast<const float*>(loss.raw_data());
}

/** Adds the value of a step to a run of losses that are not finite. */
void add(double value, std::int64_t step, std::optional<LossHistory::Run>& run, bool& any_finite) {
  if (!std::isfinite(value)) {
    if (!run) run = {.since = step, .value = value, .from_start = !any_finite};
    run->last = step;
  } else if (!run || run->last != step) {
    any_finite = true;
    run.reset();
  }
}

}  // namespace

void LossHistory::note(const Tensor& loss, std::int64_t step) {
  if (loss.numel() != 1 || Capture::current()) return;
  if (loss.device() != cpu) {
    const NoGradNoCasts plain_ops;
    if (!unread_.empty() && unread_.back().step == step) unread_.pop_back();
    if (unread_.size() == kKept) {
      unread_.erase(unread_.begin());
      any_finite_ = true;  // for all that is known
    }
    unread_.push_back({step, loss.detach()});
    return;
  }
  unread_.clear();
  add(value_of(loss), step, run_, any_finite_);
}

std::optional<LossHistory::Run> LossHistory::nonfinite_run() const {
  std::optional<Run> run = run_;
  bool any_finite = any_finite_;
  for (const Entry& entry : unread_) add(entry.loss.item<double>(), entry.step, run, any_finite);
  return run;
}

std::string LossHistory::text() const noexcept {
  try {
    const std::optional<Run> run = nonfinite_run();
    if (!run) return {};
    const char* value = std::isnan(run->value) ? "nan" : run->value > 0 ? "inf" : "-inf";
    return str("loss ", value, " since step ", run->since);
  } catch (...) {
    return {};
  }
}

}  // namespace mezzo::amp
