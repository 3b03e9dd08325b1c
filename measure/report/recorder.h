// Report::Recorder: collects the lines of a report from the hooks of a training.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "../../amp/autocast/cast_stats.h"
#include "../../autograd/hooks.h"
#include "../../optim/optimizer.h"
#include "../../tensor/io/summary_writer.h"
#include "report.h"
#include "sampler.h"

namespace mezzo::amp {

struct Report::Recorder final : public optim::StepHook, private BackwardObserver {
 public:
  Recorder(const Training& training, ReportFile& file, const ReportOptions& options);
  ~Recorder();
  /** Records a number at the step that is under way, or the last one between steps. */
  void log(const std::string& name, double value);
  /** Ends the record; later calls of the hooks do nothing. */
  void finish();

  void before_update(optim::Optimizer& optimizer, const optim::Factor& unscale,
                     bool skips) noexcept override;
  void after_step(optim::Optimizer& optimizer, const optim::StepResult& result) noexcept override;
  void begin_backward(const Tensor& output) noexcept override;

 private:
  class Replays;
  using Clock = std::chrono::steady_clock;

  /** The value of a parameter before its update. */
  struct Before {
    report::SampleRow row;
    Tensor target, value;
  };

  /** Calls f if the record goes on, on its thread and outside captures. Ends the record if f
   *  throws. */
  template <class F> void guarded(F&& f) noexcept;
  void write_run();
  void write_models();
  /** Writes the step, and its histograms, for TensorBoard. */
  void write_events(const std::vector<report::SampleRow>& rows);
  std::vector<double> learning_rates() const;
  void start_step();
  void end_step();
  /** Has each replay of the step that is being captured counted. */
  void follow_replays() noexcept;
  /** Makes the step that is being recorded one without a sample. */
  void drop_sample();
  /** Ends the record, because it failed. */
  void drop(const std::exception& e) noexcept;
  /** Returns true if an optimizer skipped the step. */
  bool was_skipped() const;
  /** Returns the scale that the loss of the running backward pass contains. */
  double scale_of_loss() const;
  std::vector<double> scales() const;
  std::string first_nonfinite() const;
  std::string name_of(const optim::Optimizer& optimizer, std::size_t group,
                      std::size_t index) const;

  const Training training_;
  ReportFile& file_;
  const ReportOptions options_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::int64_t run_;
  std::optional<SummaryWriter> events_;        // none without ReportOptions::tensorboard
  bool ended_ = false, is_under_way_ = false;  // the latter: since the backward pass
  Device device_ = cpu;
  report::ParameterNames names_;
  report::StepLine line_;
  std::int64_t first_step_ = 0, sampled_ = 0;
  std::unique_ptr<report::Sampler> sampler_;       // in sampled steps
  std::shared_ptr<Replays> replays_;               // null if no step was captured
  std::vector<report::PendingRow> overflow_rows_;  // of a step that was not sampled
  std::vector<Before> before_;
  CastStats casts_;
  Clock::time_point start_ = Clock::now(), step_start_ = start_;
};

}  // namespace mezzo::amp
