#include "detect_nonfinite.h"

#include <algorithm>

#include "../../tensor/device/capture.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "unobserved.h"

namespace mezzo::amp {

namespace {

constexpr std::size_t kRemembered = 20;

bool all_finite(Inputs tensors) { return std::all_of(tensors.begin(), tensors.end(), finite); }

WitnessedTensor measured(const Tensor& x) {
  WitnessedTensor seen{.tensor = str(x)};
  if (x.numel() == 0 || !is_floating(x.dtype())) return seen;
  const Tensor sizes = abs(x).to(f64);
  seen.abs_min = amin(sizes).item<double>();
  seen.abs_max = amax(sizes).item<double>();
  return seen;
}

std::string described(const WitnessedTensor& seen) {
  return str(seen.tensor, " in ", seen.abs_min, "..", seen.abs_max);
}

}  // namespace

/** What the guard found. */
struct detect_nonfinite::State {
  std::optional<NonfiniteReport> report;
};

detect_nonfinite::detect_nonfinite()
    : NestedTrace("detect_nonfinite: guards must close in reverse order of opening"),
      state_(new State) {}
detect_nonfinite::~detect_nonfinite() = default;

void detect_nonfinite::trace(const OpInfo& op, Inputs in, Outputs out) {
  NestedTrace::trace(op, in, out);
  if (backward_depth_ == 0) check(std::string(op.traits.name), in, out);
}

void detect_nonfinite::enter_backward(const OpInfo& op) {
  NestedTrace::enter_backward(op);
  ++backward_depth_;
}

void detect_nonfinite::leave_backward(const OpInfo& op, Inputs gy, Inputs gradients) {
  NestedTrace::leave_backward(op, gy, gradients);
  if (backward_depth_ > 0 && --backward_depth_ == 0)
    check(str(op.traits.name, " backward"), gy, gradients);
}

const std::optional<NonfiniteReport>& detect_nonfinite::report() const { return state_->report; }

void detect_nonfinite::reset() { state_->report.reset(); }

void detect_nonfinite::check(const std::string& op, Inputs in, Inputs out) {
  if (state_->report) return;
  for (const Tensor& x : out)
    if (x.defined()) Capture::refuse_crossing("amp::detect_nonfinite", x, cpu);
  const Unobserved quiet;
  last_ops_.push_back(op);
  if (last_ops_.size() > kRemembered) last_ops_.erase(last_ops_.begin());
  const auto bad = std::find_if_not(out.begin(), out.end(), finite);
  if (bad != out.end() && all_finite(in)) {
    NonfiniteReport found{.op = op, .module = current_module_path(), .output = measured(*bad)};
    for (const Tensor& x : in)
      if (x.defined()) found.inputs.push_back(measured(x));
    found.last_ops.assign(last_ops_.begin(), last_ops_.end());
    log_text(Severity::error, found.text());
    state_->report = std::move(found);
  }
}

std::string NonfiniteReport::text() const {
  std::string out = str(op, module.empty() ? "" : str("(", module, ")"),
                        ": first non-finite result; got ", described(output), " from ");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    out += str(i == 0 ? "" : " and ", described(inputs[i]));
  out += "; last ops: ";
  for (std::size_t i = 0; i < last_ops.size(); ++i) out += str(i == 0 ? "" : ", ", last_ops[i]);
  return out;
}

}  // namespace mezzo::amp
