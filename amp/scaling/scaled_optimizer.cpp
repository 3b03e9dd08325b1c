#include "scaled_optimizer.h"

#include <algorithm>
#include <utility>

#include "../../optim/device_step_state.h"
#include "../../tensor/text/text.h"
#include "../diagnose/nonfinite_gradient.h"
#include "divergence.h"

namespace mezzo::amp {

ScaledOptimizer::ScaledOptimizer(optim::Optimizer& optimizer, OptimizerTable& all)
    : clock(optimizer.clock().shared_from_this()), name(optimizer.type_name()) {
  const auto destroyed =
      std::find_if(all.begin(), all.end(), [](const auto& other) { return !other->owner(); });
  index = static_cast<std::size_t>(destroyed - all.begin());
  if (destroyed == all.end())
    all.push_back(clock);
  else
    *destroyed = clock;
}

optim::Optimizer* ScaledOptimizer::optimizer() const { return clock ? clock->owner() : nullptr; }

void ScaledOptimizer::skips_found(optim::Optimizer& optimizer, std::int64_t,
                                  std::int64_t diverged_after) {
  if (diverged_after <= 0) return;
  const std::string first = nonfinite_gradient_text(optimizer);
  fail<DivergenceError>(str("step(", name, ")"),
                        {.what = str(diverged_after, " consecutive steps skipped"),
                         .got = str(first.empty() ? "no gradient that is still non-finite"
                                                  : first + " (first non-finite gradient)",
                                    ", loss scale ", scaler->loss_scale()),
                         .expected = "finite",
                         .hint = "lower the learning rate or run under amp::detect_nonfinite"});
}

void refuse(std::string_view op, std::string what, std::string hint) {
  fail<StateError>(op, {.what = std::move(what), .hint = std::move(hint)});
}

const optim::FoundInf& move_to(Device device, optim::FoundInf& found) {
  if (found.flag.defined() && found.flag.device() == device) return found;
  const optim::FoundInf moved = optim::FoundInf::reset_on(device);
  if (found.flag.defined()) {
    moved.flag.copy_(found.flag);
    moved.first.copy_(found.first);
  }
  return found = moved;
}

}  // namespace mezzo::amp
