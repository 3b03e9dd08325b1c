// GradScaler's state_dict and load_state_dict.
#include <cmath>

#include "../../tensor/text/text.h"
#include "grad_scaler_parts.h"

namespace mezzo::amp {

std::map<std::string, double> GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  record_changes();
  const ScaleState& state = store_.state();
  std::map<std::string, double> out{{"scale", state.scale},
                                    {"growth_factor", options_.growth_factor},
                                    {"backoff_factor", options_.backoff_factor},
                                    {"growth_interval", options_.growth_interval},
                                    {"_growth_tracker", static_cast<double>(state.unskipped)}};
  if (options_.hysteresis > 1) out["hysteresis_tracker"] = static_cast<double>(state.tolerance);
  return out;
}

GradScaler::Saved GradScaler::checked(const std::map<std::string, double>& saved) const {
  constexpr std::string_view op = "GradScaler.load_state_dict";
  const std::map<std::string, double> expected = state_dict();
  for (const auto& [name, value] : saved)
    if (expected.count(name) == 0)
      fail<ValueError>(op, {.what = "unknown entry", .got = str("\"", name, "\"")});
  for (const auto& [name, value] : expected)
    if (saved.count(name) == 0)
      fail<ValueError>(op, {.what = "an entry is missing",
                            .expected = name,
                            .hint = "was it saved by a disabled scaler?"});
  const auto count = [&](const std::string& name, double least, double most) {
    const double value = saved.at(name);
    require_in_range(value >= least && value <= most && value == std::floor(value), name, value,
                     "a count");
    return static_cast<int>(value);
  };
  GradScalerOptions changed = options_;
  changed.growth_factor = saved.at("growth_factor");
  changed.backoff_factor = saved.at("backoff_factor");
  changed.growth_interval = count("growth_interval", 1, 0x1p30);
  check(changed);
  require_scale("scale", saved.at("scale"));
  const int tracker = count("_growth_tracker", 0, 0x1p30);
  const std::int64_t tolerance = options_.hysteresis > 1
                                     ? count("hysteresis_tracker", 0, options_.hysteresis)
                                     : store_.state().tolerance;
  return {changed,
          {static_cast<double>(static_cast<float>(saved.at("scale"))), tracker, tolerance}};
}

void GradScaler::check_state_dict(const std::map<std::string, double>& saved) const {
  if (options_.enabled) (void)checked(saved);
}

std::function<void()> GradScaler::stage_state_dict(const std::map<std::string, double>& saved) {
  if (!options_.enabled) return [] {};
  const Saved values = checked(saved);
  history_.make_room();
  return [this, values] {
    history_.note(scale_number(), values.state.scale, ScaleReason::restored);
    options_ = values.options;
    for (auto& [optimizer, state] : optimizers_) read_flag(*optimizer, state);
    store_.change() = values.state;
    end_iteration();
  };
}

void GradScaler::load_state_dict(const std::map<std::string, double>& saved) {
  stage_state_dict(saved)();
}

}  // namespace mezzo::amp
