#include "run.h"

#include <csignal>
#include <iostream>
#include <numeric>

#include "table.h"

namespace samples {

using namespace mezzo;

namespace {

constexpr std::size_t kRecent = 20;

volatile std::sig_atomic_t interrupted = 0;  // the signal that was received, or 0

/** Sets the handler of SIGINT (Ctrl-C) and SIGTERM, which schedulers send before they kill. */
void handle_signals(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, handler);
}

/** Ends the run after the current step. A second signal ends the process. */
void on_signal(int signal) {
  interrupted = signal;
  handle_signals(SIG_DFL);
}

std::int64_t steps_in_all(const RunOptions& options, std::int64_t total) {
  return options.steps > 0 ? std::min(total, options.steps) : total;
}

}  // namespace

Run::Run(std::string title, const RunOptions& options, const amp::Training& training,
         const Extent& extent)
    : title_(std::move(title)),
      ranks_(comm::init().all()),
      options_(options),
      training_(training),
      extent_{steps_in_all(options, extent.total_steps), extent.samples * ranks_.size()},
      progress_(title_ + " " + options.level, extent_.total_steps, options.quiet || !is_main()) {
  if (!options.resume.empty()) resume(options.resume);
  progress_.start_at(figures_.steps);
  if (!options.report.empty() && is_main()) {
    amp::Training recorded = training_;
    recorded.step = figures_.steps;
    report_ =
        std::make_unique<amp::Report>(recorded, options.report,
                                      amp::ReportOptions{.title = title_ + " " + options.level,
                                                         .group = title_,
                                                         .tensorboard = options.tensorboard});
  }
  interrupted = 0;
  handle_signals(on_signal);
  profile_.emplace(is_main() ? options.profile : "", extent_.total_steps - figures_.steps,
                   parse_device(options.device));
  print_profile(profile_->advance(0));
  start_clock();
}

Run::~Run() { handle_signals(SIG_DFL); }

bool Run::finished() const { return signal() != 0 || figures_.steps >= extent_.total_steps; }

/** Returns the signal that ends the run, or 0. Several processes find out in step_done(). */
int Run::signal() const { return ranks_.size() == 1 ? interrupted : agreed_signal_; }

bool Run::step_done(double loss, optim::StepResult result) {
  times_.push_back(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - step_start_).count());
  const amp::CastStats casts = amp::cast_stats() - casts_at_step_;
  figures_.casts_per_step += static_cast<double>(casts.casts);
  figures_.cast_bytes_per_step += static_cast<double>(casts.bytes);
  losses_.push_back(loss);
  recent_.push_back(loss);
  if (recent_.size() > kRecent) recent_.erase(recent_.begin());
  ++figures_.steps;
  if (result == optim::StepResult::skipped) ++figures_.skipped_steps;
  if (ranks_.size() > 1) agreed_signal_ = static_cast<int>(ranks_.max(interrupted));
  progress_.step(figures_.steps, status());
  if (options_.save_every > 0 && figures_.steps % options_.save_every == 0) save();
  print_profile(profile_->advance(static_cast<std::int64_t>(losses_.size())));
  start_clock();
  return !finished();
}

void Run::line(const std::string& text) {
  progress_.line(text);
  start_clock();
}

void Run::start_clock() {
  casts_at_step_ = amp::cast_stats();
  step_start_ = std::chrono::steady_clock::now();
}

void Run::save() {
  if (options_.save.empty() || saved_at_ == figures_.steps) return;
  amp::Training training = training_;
  training.step = figures_.steps;
  for (const auto& entry : training_.loader) training.epoch = entry.object->epoch();
  training.metadata["skipped_steps"] = figures_.skipped_steps;
  for (std::size_t i = 0; i < recent_.size(); ++i)
    training.metadata[str("recent_loss.", i)] = recent_[i];
  amp::save_checkpoint(options_.save, training, {.keep = 3});
  saved_at_ = figures_.steps;
}

void Run::resume(const std::string& path) {
  const amp::LoadedCheckpoint loaded = amp::load_checkpoint(path, training_);
  figures_.steps = loaded.step;
  if (const auto found = loaded.metadata.find("skipped_steps"); found != loaded.metadata.end())
    figures_.skipped_steps = std::get<std::int64_t>(found->second);
  for (std::size_t i = 0; i < kRecent; ++i)
    if (const auto found = loaded.metadata.find(str("recent_loss.", i));
        found != loaded.metadata.end())
      recent_.push_back(std::get<double>(found->second));
}

void Run::log(const std::string& name, double value) {
  if (report_) report_->log(name, value);
}

void Run::note(const std::string& name, double value) { notes_.emplace_back(name, value); }

void Run::print_profile(const std::string& table) {
  if (table.empty()) return;
  progress_.clear();
  std::cerr << table;
}

RunFigures Run::finish() {
  print_profile(profile_->finish());
  save();
  const RunFigures result = figures();
  report_.reset();  // a full disk is logged and does not fail the run
  if (!options_.json.empty() && is_main())
    write_run(options_.json, title_, options_, result, notes_, losses_);
  if (was_interrupted())
    progress_.line("interrupted after step " + std::to_string(figures_.steps) +
                   (options_.save.empty() ? "" : "; continue with --resume " + options_.save));
  return result;
}

/** Returns true if a signal ended the run. A signal after the last step does not count. */
bool Run::was_interrupted() const {
  const bool done = figures_.steps >= extent_.total_steps;
  return signal() != 0 && !done;
}

int Run::exit_status() const { return was_interrupted() ? 128 + signal() : 0; }

double Run::recent_loss() const {
  if (recent_.empty()) return 0;
  return std::accumulate(recent_.begin(), recent_.end(), 0.0) / static_cast<double>(recent_.size());
}

std::string Run::status() const {
  return "loss " + fixed(recent_loss(), 4) + "  scale " + fixed(figures().loss_scale, 0) +
         "  skipped " + std::to_string(figures_.skipped_steps);
}

RunFigures Run::figures() const {
  RunFigures result = figures_;
  const double seconds = median_of(times_);
  result.step_ms = 1e3 * seconds;
  result.samples_per_s = seconds > 0 ? static_cast<double>(extent_.samples) / seconds : 0;
  result.recent_loss = recent_loss();
  for (const auto& entry : training_.session)
    result.loss_scale = entry.object->loss_scaler().loss_scale();
  result.peak_bytes = memory_stats(parse_device(options_.device)).total.peak;
  if (losses_.empty()) return result;
  result.casts_per_step /= static_cast<double>(losses_.size());
  result.cast_bytes_per_step /= static_cast<double>(losses_.size());
  return result;
}

}  // namespace samples
