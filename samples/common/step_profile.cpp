#include "step_profile.h"

#include <algorithm>
#include <utility>

namespace samples {

using namespace mezzo;

StepProfile::StepProfile(std::string path, std::int64_t steps, Device device)
    : path_(std::move(path)), device_(device) {
  // The first steps allocate memory and optimizer state.
  constexpr std::int64_t kWarmup = 3, kSteps = 5;
  first_ = std::clamp<std::int64_t>(steps - 1, 0, kWarmup);
  last_ = std::min(steps, first_ + kSteps);
  if (path_.empty()) return;
  // twice, since other programs may disturb a measurement
  roof_ = measure_roof(device).best_of(measure_roof(device));
  empty_cache(device);
  reset_peak_memory(device);
}

std::string StepProfile::advance(std::int64_t done) {
  if (path_.empty()) return {};
  done_ = done;
  std::string table = done == last_ ? finish() : std::string();
  if (done == first_ && first_ < last_)
    profile_ = std::make_unique<Profiler>(ProfilerOptions{.device = device_});
  return table;
}

std::string StepProfile::finish() {
  if (!profile_) return {};
  const std::unique_ptr<Profiler> profile = std::exchange(profile_, nullptr);
  profile->stop();
  profile->chrome_trace(path_);
  return str("profile of steps ", first_ + 1, " to ", done_, ", trace in ", path_, "\n",
             profile->table({.rows = 20, .roof = &roof_}));
}

}  // namespace samples
