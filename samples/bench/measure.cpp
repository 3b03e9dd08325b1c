#include "measure.h"

#include <algorithm>

#include "stopwatch.h"

namespace samples {

using namespace mezzo;

double Measurement::share_of_floor() const {
  return step_ms > 0 ? 1e3 * std::max(floor.arithmetic, floor.memory) / step_ms : 0;
}

Measurement measure(const std::string& net, const Setting& setting, const MeasureOptions& options,
                    const Roof& roof) {
  empty_cache(setting.device);
  reset_peak_memory(setting.device);
  const std::unique_ptr<Workload> workload = make_workload(net, setting);
  Measurement m;
  m.net = net;
  m.level = setting.level;
  m.samples = workload->samples;
  m.steps = options.steps;
  std::vector<double> times;
  amp::CastStats casts;
  for (std::int64_t i = 0; i < options.steps; ++i) {
    const amp::CastStats before = amp::cast_stats();
    StepOutcome outcome;
    times.push_back(1e3 * seconds([&] { outcome = workload->step(i); }));
    casts = amp::cast_stats() - before;  // the last step's: the first ones fill the caches
    m.losses.push_back(outcome.loss);
    m.skipped_steps += outcome.skipped ? 1 : 0;
  }
  m.memory = memory_stats(setting.device);
  m.loss = m.losses.empty() ? 0 : m.losses.back();
  m.loss_scale = workload->loss_scale();
  m.casts_per_step = static_cast<double>(casts.casts);
  m.cast_bytes_per_step = static_cast<double>(casts.bytes);
  times.erase(times.begin(), times.begin() + std::min<std::ptrdiff_t>(options.warm_up, std::ssize(times)));
  m.step_ms = median(times);
  m.fast_ms = quantile(times, 0.1);
  m.slow_ms = quantile(times, 0.9);
  m.samples_per_s = m.step_ms > 0 ? 1e3 * static_cast<double>(m.samples) / m.step_ms : 0;
  // One more step, unseen by the figures, with every op counted.
  const OpCount count;
  workload->step(options.steps);
  m.work = count.work();
  for (const optim::Optimizer* optimizer : workload->optimizers()) m.work.bytes += update_bytes(*optimizer);
  m.floor = floor_of(m.work, roof);
  return m;
}

}  // namespace samples
