#include "bench_run.h"

#include <algorithm>

#include "../amp/policy.h"
#include "../tensor/core/error.h"
#include "report/report.h"
#include "stopwatch.h"

namespace mezzo::bench {

std::vector<std::string> levels_of(const Options& options) {
  std::vector<std::string> levels = options.levels;
  if (levels.empty())
    for (const amp::Level& level : amp::kLevels) levels.emplace_back(level.name);
  return levels;
}

namespace {

/** Returns the loss scale of the first loss; 1 without loss scaling. */
double loss_scale_of(const amp::Training& training) {
  for (const auto& session : training.session) return session.object->loss_scaler().loss_scale();
  for (const auto& scaler : training.scaler) return scaler.object->get_scale();
  return 1;
}

}  // namespace

Run::Run(const Net& net, const Setting& setting, const Options& options)
    : options_(options), memory_(setting.device), generator_{setting.seed} {
  row_.net = net.name;
  row_.level = setting.level;
  row_.emulated = emulates_level(setting.level, setting.device);
  memory_.during([&] {
    const OwnGenerator generator(generator_);
    const CategoryScope not_activations(MemoryCategory::other);
    construction_seconds_ = seconds([&] { workload_ = net.make(setting); });
  });
  row_.samples = workload_->samples;
  (void)train(std::min(options.warm_up, options.steps));
}

void Run::turn() {
  const std::int64_t left = options_.steps - steps_;
  turns_ms_.push_back(median_of(train(left > 0 ? std::min(kTurn, left) : kTurn)));
}

/** Returns the median time of the latest turns' steps; the first step of a run is slower. */
double Run::step_seconds() const {
  constexpr std::ptrdiff_t kLatest = 20;
  const auto& times = row_.times_ms;
  if (times.empty()) return 0;
  const std::ptrdiff_t count = std::clamp<std::ptrdiff_t>(std::ssize(times) - 1, 1, kLatest);
  return 1e-3 * median_of({times.end() - count, times.end()});
}

double Run::seconds_left() const {
  return step_seconds() * static_cast<double>(std::max<std::int64_t>(0, options_.steps - steps_));
}

double Run::seconds_in_all() const {
  return construction_seconds_ + step_seconds() * static_cast<double>(options_.steps);
}

bool Run::stable() const { return median_interval(turns_ms_).relative_width() <= kStableWidth; }

std::vector<double> Run::train(std::int64_t count) {
  const OwnGenerator generator(generator_);
  const auto all = [&] {
    for (std::int64_t i = 0; i < count; ++i) step();
  };
  // Rounds that are added for the times do not count otherwise.
  done() ? all() : memory_.during(all);
  return {row_.times_ms.end() - count, row_.times_ms.end()};
}

void Run::step() {
  const amp::CastStats before = amp::cast_stats();
  StepOutcome outcome;
  row_.times_ms.push_back(1e3 * seconds([&] { outcome = workload_->step(steps_); }));
  if (!done()) {
    casts_ = amp::cast_stats() - before;
    row_.losses.push_back(outcome.loss);
    row_.skipped_steps += outcome.skipped ? 1 : 0;
    row_.loss_scale = loss_scale_of(workload_->training());
  }
  ++steps_;
}

Row Run::finish() {
  row_.memory = memory_.stats();
  row_.loss = row_.losses.empty() ? 0 : row_.losses.back();
  row_.casts_per_step = static_cast<double>(casts_.casts);
  row_.cast_bytes_per_step = static_cast<double>(casts_.bytes);
  row_.step_ms = median_interval(turns_ms_);
  const std::vector<double> timed(row_.times_ms.begin() + options_.warm_up, row_.times_ms.end());
  row_.fast_ms = quantile_of(timed, 0.1);
  row_.slow_ms = quantile_of(timed, 0.9);
  const double ms = row_.step_ms.value;
  row_.samples_per_s = ms > 0 ? 1e3 * static_cast<double>(row_.samples) / ms : 0;
  const OwnGenerator generator(generator_);
  const WorkCount count;
  workload_->step(steps_);
  work_ = count.work();
  const amp::Training training = workload_->training();
  for (const auto& optimizer : training.optimizer) work_.add_update(*optimizer.object);
  row_.work = work_.total();
  return row_;
}

namespace {

/** Trains a net at one level and records it. */
void record_run(const Net& net, const Setting& setting, std::int64_t steps, amp::ReportFile& file) {
  Generator own{setting.seed};
  const OwnGenerator generator(own);
  const std::unique_ptr<Workload> workload = net.make(setting);
  amp::Report report(workload->training(), file,
                     {.title = net.name + " " + setting.level,
                      .group = net.name,
                      .every = std::max<std::int64_t>(2, steps / 20)});
  for (std::int64_t step = 0; step < steps; ++step) workload->step(step);
  report.close();
}

}  // namespace

std::vector<std::string> record(const std::vector<Net>& nets, amp::ReportFile& file,
                                const Options& options) {
  std::vector<std::string> failed;
  for (const Net& net : nets)
    for (const std::string& level : levels_of(options)) try {
        record_run(net, {.level = level, .device = options.device, .seed = options.seed},
                   options.steps, file);
      } catch (const std::exception& e) {
        failed.push_back(error_text(net.name + " " + level + " failed", {.what = e.what()}));
      }
  return failed;
}

}  // namespace mezzo::bench
