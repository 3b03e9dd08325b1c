// Run: what a training loop has around its steps: resuming, progress, signals that end it,
// checkpoints, and the figures for a report.
// Sees: mezzo.h, progress.h, run_options.h.
// Read next: ../mnist.cpp (its use), run.cpp.
#pragma once

#include <mezzo.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "progress.h"
#include "run_options.h"

namespace samples {

/** What came of a run so far. */
struct RunFigures {
  std::int64_t steps = 0;  // with those before a resumed run's checkpoint, as is skipped_steps
  std::int64_t skipped_steps = 0;
  double step_ms = 0;        // median
  double samples_per_s = 0;  // samples of a step over the median step
  double recent_loss = 0;    // mean over the last 20 steps: a single batch's says little
  double loss_scale = 1;     // of the first loss
  std::int64_t peak_bytes = 0;
  double casts_per_step = 0;
  double cast_bytes_per_step = 0;
};

/** The frame of one training:
 *    Run run("mnist", options, {.model = net, .optimizer = optimizer, .session = session}, {.total_steps = 500, .samples = 64});
 *    while (!run.finished()) {
 *      ... a step ...
 *      run.step_done(loss, optimizer.step());
 *    }
 *    run.finish();
 *    return run.exit_status();
 *  Made last, when all that is trained exists: where the options say so it resumes from a checkpoint. */
class Run {
 public:
  struct Extent {
    std::int64_t total_steps = 0;  // in all, those before a checkpoint included; --steps can make it fewer
    std::int64_t samples = 0;      // in a step
  };

  Run(std::string title, const RunOptions& options, const mezzo::amp::Training& training,
      const Extent& extent);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /** Whether no more steps are to be made: all were, or SIGINT (Ctrl-C) or SIGTERM came. */
  bool finished() const;
  /** Takes note of one step; saves where one is due. False where the run is finished: leave the loop then. */
  bool step_done(double loss, mezzo::optim::StepResult result);
  /** Steps behind this run, those before its checkpoint included. */
  std::int64_t step() const { return figures_.steps; }
  /** Saves a checkpoint, where the user wants any. */
  void save();
  /** A line that stays above the progress bar. */
  void line(const std::string& text);
  /** A figure of the program's own for the report: "accuracy". */
  void note(const std::string& name, double value);
  /** Saves, writes the report, and says so where the run was interrupted. */
  RunFigures finish();
  /** 0; 128 + signal where a signal ended the run before its last step. */
  int exit_status() const;

  /** "loss 0.1234  scale 65536  skipped 1". */
  std::string status() const;
  RunFigures figures() const;

 private:
  /** The next step's time and casts count from here: what stands between steps is not theirs. */
  void start_clock();
  void resume(const std::string& path);
  bool was_interrupted() const;
  double recent_loss() const;

  std::string title_;
  RunOptions options_;
  mezzo::amp::Training training_;
  Extent extent_;
  Progress progress_;
  RunFigures figures_;
  std::int64_t saved_at_ = -1;
  std::vector<double> losses_, times_;  // of this process
  std::vector<double> recent_;          // the latest losses, oldest first
  std::vector<std::pair<std::string, double>> notes_;
  mezzo::amp::CastStats casts_at_step_;
  std::chrono::steady_clock::time_point step_start_;
};

/** Writes a run's figures as JSON. Errors: IoError. */
void write_run(const std::string& path, const std::string& title, const RunOptions& options,
               const RunFigures& figures, const std::vector<std::pair<std::string, double>>& notes,
               const std::vector<double>& losses);

}  // namespace samples
