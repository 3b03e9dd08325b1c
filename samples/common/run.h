// Run: resuming, progress, signals, checkpoints and report figures of a training loop.
#pragma once

#include <mezzo.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "run_options.h"
#include "step_profile.h"

namespace samples {

/** Figures of a run. */
struct RunFigures {
  std::int64_t steps = 0;          // includes steps before a resumed checkpoint
  std::int64_t skipped_steps = 0;  // includes steps before a resumed checkpoint
  double step_ms = 0;              // median
  double samples_per_s = 0;        // samples of a step divided by the median step time
  double recent_loss = 0;          // mean over the last 20 steps
  double loss_scale = 1;           // of the first loss
  std::int64_t peak_bytes = 0;
  double casts_per_step = 0;
  double cast_bytes_per_step = 0;
};

/** One training run:
 *    Run run("mnist", options, {.model = net, .optimizer = optimizer, .session = session},
 *            {.total_steps = 500, .samples = 64});
 *    while (!run.finished()) {
 *      ... a step ...
 *      run.step_done(loss, optimizer.step());
 *    }
 *    run.finish();
 *    return run.exit_status();
 *  Construct it after everything that is trained, because the constructor resumes from a checkpoint
 *  if the options name one. In several processes all make the same calls; rank 0 prints and writes
 *  files, and a signal to one of them ends the run of all. */
class Run {
 public:
  struct Extent {
    std::int64_t total_steps = 0;  // includes steps before a checkpoint; --steps can lower it
    std::int64_t samples = 0;      // samples in a step of one process
  };

  Run(std::string title, const RunOptions& options, const mezzo::amp::Training& training,
      const Extent& extent);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /** Returns true after the last step, and after SIGINT (Ctrl-C) or SIGTERM. */
  bool finished() const;
  /** Records a step and saves a checkpoint if one is due. Returns false if the run is finished. */
  bool step_done(double loss, mezzo::optim::StepResult result);
  /** Returns the number of steps done, including those before a resumed checkpoint. */
  std::int64_t step() const { return figures_.steps; }
  /** Saves a checkpoint if the options name a directory. */
  void save();
  /** Adds a number to the curves of the report, if there is one. */
  void log(const std::string& name, double value);
  /** Prints a line that stays above the progress bar. */
  void line(const std::string& text);
  /** Adds a figure to the report, such as "accuracy". */
  void note(const std::string& name, double value);
  /** Saves a checkpoint, writes the report, and prints whether the run was interrupted. */
  RunFigures finish();
  /** Returns 0, or 128 + signal if a signal ended the run before its last step. */
  int exit_status() const;

  /** Returns text such as "loss 0.1234  scale 65536  skipped 1". */
  std::string status() const;
  /** Returns the figures of the run so far. */
  RunFigures figures() const;

 private:
  /** Starts measuring the time and casts of the next step, so that work between steps is not
   *  counted. */
  void start_clock();
  void resume(const std::string& path);
  bool is_main() const { return ranks_.rank() == 0; }
  int signal() const;
  bool was_interrupted() const;
  double recent_loss() const;
  /** Prints the table of a profile that is complete. */
  void print_profile(const std::string& table);

  std::string title_;
  mezzo::comm::Communicator ranks_;  // that train together; only rank 0 prints and writes files
  RunOptions options_;
  mezzo::amp::Training training_;
  Extent extent_;
  mezzo::Progress progress_;
  RunFigures figures_;
  std::int64_t saved_at_ = -1;
  int agreed_signal_ = 0;               // the same on all ranks
  std::vector<double> losses_, times_;  // of the steps in this process
  std::vector<double> recent_;          // most recent losses, oldest first
  std::vector<std::pair<std::string, double>> notes_;
  std::unique_ptr<mezzo::amp::Report> report_;  // null without --report
  mezzo::amp::CastStats casts_at_step_;
  std::chrono::steady_clock::time_point step_start_;
  std::optional<StepProfile> profile_;  // set after resuming
};

/** Writes a run's figures as JSON. Errors: IoError. */
void write_run(const std::string& path, const std::string& title, const RunOptions& options,
               const RunFigures& figures, const std::vector<std::pair<std::string, double>>& notes,
               const std::vector<double>& losses);

}  // namespace samples
