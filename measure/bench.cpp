#include "bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>

#include "../amp/session.h"
#include "../tensor/core/error.h"
#include "../tensor/text/text.h"
#include "bench_run.h"

namespace mezzo::bench {

Workload::~Workload() = default;

amp::Training Workload::training() { return {}; }

bool Row::unstable() const { return !(step_ms.relative_width() <= kStableWidth); }

double Row::share_of_floor() const { return step_ms.value > 0 ? floor_ms / step_ms.value : 0; }

namespace {

class SupervisedWorkload final : public Workload {
 public:
  SupervisedWorkload(const Setting& setting, Supervised parts)
      : parts_(std::move(parts)),
        session_(amp::initialize(parts_.model, *parts_.optimizer,
                                 {.opt_level = setting.level, .verbosity = 0})) {
    samples = parts_.samples > 0 ? parts_.samples : parts_.batches.front().size();
  }

  StepOutcome step(std::int64_t number) override {
    const Tensor loss =
        parts_.loss(parts_.batches[static_cast<std::size_t>(number) % parts_.batches.size()]);
    parts_.optimizer->zero_grad();
    amp::scale_loss(loss, *parts_.optimizer, [](const Tensor& scaled) { scaled.backward(); });
    optim::StepOptions options;
    if (parts_.max_norm > 0) options.max_norm = parts_.max_norm;
    const bool skipped = parts_.optimizer->step(options) == optim::StepResult::skipped;
    return {loss.item<double>(), skipped};
  }

  amp::Training training() override {
    return {.model = parts_.model, .optimizer = *parts_.optimizer, .session = session_};
  }

 private:
  Supervised parts_;
  amp::Session session_;
};

}  // namespace

std::unique_ptr<Workload> supervised(const Setting& setting, Supervised parts) {
  if (parts.optimizer == nullptr || parts.loss == nullptr || parts.batches.empty())
    fail<ValueError>(
        "bench::supervised",
        {.what = "the net cannot be trained",
         .got = str(parts.optimizer ? "an" : "no", " optimizer, ", parts.loss ? "a" : "no",
                    " loss, ", parts.batches.size(), " batches"),
         .expected = "an optimizer, a loss and at least one batch"});
  parts.model.to(setting.device);
  for (Batch& batch : parts.batches)
    batch = {batch.x.to(setting.device), batch.y.to(setting.device)};
  return std::make_unique<SupervisedWorkload>(setting, std::move(parts));
}

namespace {

using Clock = std::chrono::steady_clock;

/** Returns the free memory of the host in bytes, as reported by /proc or cgroups: of the system, or
 *  of the control group if that has less. */
std::int64_t free_host_memory() {
  std::int64_t free = std::numeric_limits<std::int64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  std::int64_t kib = 0;
  for (std::string key, rest; meminfo >> key; std::getline(meminfo, rest))
    if (key == "MemAvailable:" && meminfo >> kib) free = kib * 1024;
  std::int64_t limit = 0, used = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> limit &&
      std::ifstream("/sys/fs/cgroup/memory.current") >> used)
    free = std::min(free, std::max<std::int64_t>(0, limit - used));
  return free;
}

/** The runs of one net; null for those that failed. */
struct NetRuns {
  std::size_t first_row = 0;  // of its levels
  std::vector<std::unique_ptr<Run>> runs;
  std::vector<std::string> errors;
  bool out_of_memory = false;

  /** Calls f(run, level) for the runs that have not failed. One that throws has failed. */
  template <class F> void each(F&& f) {
    for (std::size_t level = 0; level < runs.size(); ++level)
      if (errors[level].empty()) attempt(level, [&] { f(*runs[level], level); });
  }

  template <class F> void attempt(std::size_t level, F&& f) {
    try {
      f();
      return;
    } catch (const OutOfMemory& e) {
      errors[level] = e.what();
      out_of_memory = true;
    } catch (const std::exception& e) {
      errors[level] = e.what();
    }
    if (errors[level].empty()) errors[level] = "an exception without a text";
    runs[level].reset();
  }
};

/** One call of measure(). */
class Bench {
 public:
  Bench(const std::vector<Net>& nets, const Options& options, const Sink& sink)
      : nets_(nets), options_(options), sink_(sink) {
    options_.levels = levels_of(options);
    results_.facts = {.environment = environment(options.device),
                      .roof = options.roof ? *options.roof : measure_roof(options.device),
                      .warm_up = options.warm_up,
                      .steps = options.steps,
                      .seconds = options.seconds,
                      .notes = options.notes};
    for (const Net& net : nets)
      for (const std::string& level : options_.levels) {
        Row& row = results_.rows.emplace_back();
        row.net = net.name;
        row.level = level;
      }
    memory_ = options.memory > 0      ? options.memory
              : options.device == cpu ? free_host_memory() / 2
                                      : std::numeric_limits<std::int64_t>::max();
  }

  Results run() {
    if (sink_.facts) sink_.facts(results_.facts);
    for (std::size_t next = 0; next < nets_.size();) {
      empty_cache(options_.device);
      std::vector<NetRuns> group;
      while (next < nets_.size() && !is_full(group)) {
        NetRuns net = start(next);
        // A net that does not fit begins the next group, with all the memory for itself.
        if (!group.empty() && !fits(group, net)) break;
        report_failed(net);
        group.push_back(std::move(net));
        ++next;
      }
      take_turns(group);
    }
    return std::move(results_);
  }

 private:
  bool is_full(const std::vector<NetRuns>& group) const {
    return options_.together > 0 && std::ssize(group) >= options_.together;
  }

  /** Constructs the net at all levels and trains the warm-up, after which each run holds what it
   *  holds between turns. */
  NetRuns start(std::size_t index) {
    const std::size_t levels = options_.levels.size();
    NetRuns net{.first_row = index * levels,
                .runs = std::vector<std::unique_ptr<Run>>(levels),
                .errors = std::vector<std::string>(levels)};
    for (std::size_t i = 0; i < levels; ++i)
      net.attempt(i, [&] {
        net.runs[i] = std::make_unique<Run>(
            nets_[index],
            Setting{.level = options_.levels[i], .device = options_.device, .seed = options_.seed},
            options_);
        known_seconds_ += net.runs[i]->seconds_in_all();
        ++known_runs_;
      });
    return net;
  }

  /** Estimates the seconds that are left and gives them to the sink. `group` takes turns. */
  void tell_time(std::vector<NetRuns>& group) {
    if (!sink_.time) return;
    double left = 0;
    std::int64_t finished = 0;
    const auto add = [&](const Run& run, std::size_t) { left += run.seconds_left(); };
    for (NetRuns& net : group) net.each(add);
    for (const Row& row : results_.rows) finished += !row.error.empty() ? 1 : 0;
    const std::int64_t unknown =
        std::max<std::int64_t>(0, std::ssize(results_.rows) - known_runs_ - finished);
    if (unknown > 0)
      left += static_cast<double>(unknown) * known_seconds_ / static_cast<double>(known_runs_);
    const Clock::time_point now = Clock::now();
    const auto seconds_since = [&](Clock::time_point then) {
      return std::chrono::duration<double>(now - then).count();
    };
    // Turns cost more than the median times of their steps, above all on a busy machine.
    if (turns_seconds_ > 0) left *= std::max(1.0, seconds_since(turns_start_) / turns_seconds_);
    // At most; the added rounds end earlier if all rows are stable.
    const double added = end_ ? -seconds_since(*end_) : options_.seconds;
    std::int64_t runs = 0;
    for (NetRuns& net : group) net.each([&](const Run&, std::size_t) { ++runs; });
    // Rounds are completed: the one that runs, and those that start before the end.
    const double share = static_cast<double>(turns_in_round_) / static_cast<double>(runs),
                 round = seconds_since(turns_start_) / (static_cast<double>(rounds_) + share),
                 rest = end_ ? round * std::max(0.0, 1 - share) : 0;
    left += rest + std::ceil(std::max(0.0, added - rest) / round) * round;
    sink_.time(seconds_since(start_), left);
  }

  /** Returns whether the net fits into memory with the others: what all hold between turns, and
   *  what one of them needs besides during its turn. */
  bool fits(std::vector<NetRuns>& group, NetRuns& net) const {
    std::int64_t held = 0, most = 0;
    const auto count = [&](const Run& run, std::size_t) {
      held += run.memory().current;
      most = std::max(most, run.memory().peak - run.memory().current);
    };
    for (NetRuns& other : group) other.each(count);
    net.each(count);
    return !net.out_of_memory && held + most <= memory_;
  }

  /** Makes rows of the runs that have failed since the last call. */
  void report_failed(const NetRuns& net) {
    for (std::size_t i = 0; i < net.errors.size(); ++i) {
      Row& row = results_.rows[net.first_row + i];
      if (net.errors[i].empty() || !row.error.empty()) continue;
      row.error = net.errors[i];
      if (sink_.row) sink_.row(row);
    }
  }

  /** Trains the nets in turns until each is complete. */
  void take_turns(std::vector<NetRuns>& group) {
    end_.reset();
    turns_start_ = Clock::now();
    turns_seconds_ = 0;
    rounds_ = 0;
    std::int64_t next_look = 0;
    while (!group.empty()) {
      turns_in_round_ = 0;
      for (NetRuns& net : group) {
        net.each([&](Run& run, std::size_t) {
          run.turn();
          turns_seconds_ += run.turn_seconds();
          ++turns_in_round_;
          tell_time(group);
        });
        report_failed(net);
      }
      ++rounds_;
      if (!all_done(group)) continue;
      const Clock::time_point now = Clock::now();
      if (!end_)
        end_ = now + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(options_.seconds));
      const bool is_over = now >= *end_;
      // Rarely, because a row that is looked at often is once stable by chance.
      if (!is_over && rounds_ < next_look) continue;
      next_look = rounds_ + rounds_ / 2;
      std::erase_if(group, [&](NetRuns& net) {
        if (!is_over && !all_stable(net)) return false;
        complete(net);
        return true;
      });
    }
  }

  static bool all_done(std::vector<NetRuns>& group) {
    bool done = true;
    for (NetRuns& net : group)
      net.each([&](const Run& run, std::size_t) { done = done && run.done(); });
    return done;
  }

  static bool all_stable(NetRuns& net) {
    bool stable = true;
    net.each([&](const Run& run, std::size_t) { stable = stable && run.stable(); });
    return stable;
  }

  /** Makes the rows of a net. */
  void complete(NetRuns& net) {
    std::vector<double> o0_ms;
    net.each([&](const Run& run, std::size_t level) {
      if (options_.levels[level] == "O0") o0_ms = run.turns_ms();
    });
    net.each([&](Run& run, std::size_t level) {
      Row row = run.finish();
      row.over_o0 = ratio(run.turns_ms(), o0_ms);
      set_floor(row, run.work());
      results_.rows[net.first_row + level] = row;
      net.runs[level].reset();
      if (sink_.row) sink_.row(row);
    });
    report_failed(net);
  }

  /** Returns the median of the ratios of values of the same round. */
  static MedianInterval ratio(const std::vector<double>& values,
                              const std::vector<double>& references) {
    if (references.size() != values.size()) return {};
    std::vector<double> ratios;
    for (std::size_t i = 0; i < values.size(); ++i) ratios.push_back(values[i] / references[i]);
    return median_interval(ratios);
  }

  /** Sets the lower bound of a row. A step that is faster than its bound shows that the measurement
   *  of the roof was disturbed, so that it is repeated. */
  void set_floor(Row& row, const StepWork& work) {
    Roof& roof = results_.facts.roof;
    row.floor_ms = 1e3 * work.floor(roof);
    if (row.share_of_floor() <= 1 || options_.roof || roof_repeated_ >= kRoofRepeats) return;
    ++roof_repeated_;
    roof = roof.best_of(measure_roof(options_.device));
    row.floor_ms = 1e3 * work.floor(roof);
  }

  static constexpr int kRoofRepeats = 3;

  const std::vector<Net>& nets_;
  Options options_;
  const Sink& sink_;
  Results results_;
  std::int64_t memory_ = 0;  // for the nets that take turns
  int roof_repeated_ = 0;
  const Clock::time_point start_ = Clock::now();
  std::optional<Clock::time_point> end_;  // of the rounds that are added to a group
  Clock::time_point turns_start_;         // of the group that takes turns
  double turns_seconds_ = 0;              // of its turns so far, by the median times of steps
  std::int64_t rounds_ = 0;               // that it has completed
  std::int64_t turns_in_round_ = 0;       // of the round that runs
  double known_seconds_ = 0;              // of runs that have been constructed, in all
  std::int64_t known_runs_ = 0;           // their number
};

}  // namespace

Results measure(const std::vector<Net>& nets, const Options& options, const Sink& sink) {
  if (options.warm_up < 0 || options.steps <= options.warm_up)
    fail<ValueError>("bench::measure",
                     {.what = "no step is left to time",
                      .got = str(options.steps, " steps, ", options.warm_up, " for the warm-up"),
                      .expected = "more steps than those of the warm-up, which is not negative"});
  return Bench(nets, options, sink).run();
}

}  // namespace mezzo::bench
