// Report: records where the numbers of a training lie, and makes a page of it.
// See also: README.md (how to use it, the format of the file).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "../../amp/checkpoint/checkpoint.h"
#include "../../tensor/core/pointers.h"
#include "report_file.h"

namespace mezzo::amp {

/** Options of Report. */
struct ReportOptions {
  std::string title = {};        // shown on the page; empty: the file's name
  std::string group = {};        // runs of one group are compared; empty: the title
  std::int64_t every = 20;       // sample the first step and then each `every`-th
  std::string tensorboard = {};  // folder of event files and CSV, as of SummaryWriter; empty: none
};

/** Records a training until it is destroyed:
 *    amp::Report report(model, optimizer, session, "run.html");
 *  Nothing else changes in the program; a step ends with the step of the last optimizer. Of each
 *  step it records losses, loss scales, results and time; of sampled steps, histograms of
 *  activations, weights, their gradients and updates, the casts, the ops, and memory by category;
 *  and learning rates, and what log() is given.
 *  Bits of the training do not change. Observes the thread that constructs it. Ops of sampled steps
 *  run one by one, without the fusions that a trace hook prevents. On a device a sampled step
 *  waits for it, and losses and scales are recorded in sampled steps only. A gpu::CapturedStep runs
 *  op by op in a sampled step; replays of a gpu::Graph count as steps that are not sampled. */
class MZ_API Report {
 public:
  /** Records a training into a file of its own (report_file.h says which). Needs no session, no
   *  optimizer and no module. Errors: those of ReportFile; ValueError unless every > 0. */
  Report(const Training& training, const std::string& path, const ReportOptions& options = {});
  /** Records a training into a file that several reports share; it must outlive this one. */
  Report(const Training& training, ReportFile& file, const ReportOptions& options = {});
  /** Records one model and its optimizer in a session. */
  Report(const nn::Module& model, optim::Optimizer& optimizer, Session& session,
         const std::string& path, const ReportOptions& options = {});
  /** Records one model and its optimizer without mixed precision. */
  Report(const nn::Module& model, optim::Optimizer& optimizer, const std::string& path,
         const ReportOptions& options = {});
  /** Ends the record and makes the page; errors are logged. */
  ~Report();
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  /** Records a number of the program, such as an accuracy, at the step that is under way, or the
   *  last one between steps. The page draws a curve of each name; names that contain "loss" are
   *  drawn with the loss. Errors: ValueError for an empty name. */
  void log(const std::string& name, double value);

  /** Ends the record and makes the page. Closing again does nothing. Errors: IoError with the
   *  path. */
  void close();

 private:
  struct Recorder;
  Owner<ReportFile> own_file_;  // null if the file is shared
  Shared<Recorder> recorder_;
};

}  // namespace mezzo::amp
