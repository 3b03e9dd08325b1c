// StepState: the counters, learning rates and step results of an optimizer, in the memory of the
// device that updates: the CPU's too. Steps whose overflow flag is on a device are taken or skipped
// there while the host goes on; captured steps read what the host has changed since.
// See also: step_record.h (what the kernels see of it).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "../../tensor/device/capture.h"
#include "../../tensor/memory/transfer.h"
#include "step_record.h"
#include "tensor_list.h"

namespace mezzo::optim {

class CapturedSteps;
class Optimizer;
class OptimizerHooks;
struct ParamUpdate;

/** The state of an optimizer's steps: in the memory of the device that updates, with the host's
 * copy of it, which is Slot::steps and a StepRecord. Shared by the optimizer and the graphs of
 * captured steps. */
class MZ_API StepState final : public std::enable_shared_from_this<StepState> {
 public:
  explicit StepState(Optimizer& optimizer) : optimizer_(&optimizer) {}
  /** Called when the optimizer is destroyed. */
  void detach() { optimizer_ = nullptr; }
  /** Returns the optimizer; null after it was destroyed. */
  Optimizer* owner() const { return optimizer_; }
  /** Returns the optimizer. Errors: StateError in the name of a replay if it was destroyed. */
  Optimizer& optimizer() const;
  /** Returns the device; the CPU before the first step. */
  Device device() const { return memory_.record.defined() ? memory_.record.device() : cpu; }

  // ---- steps ------------------------------------------------------------------------------------
  /** Prepares a step: moves the state to the device of the gradients, the CPU if they are on
   *  several, uploads what has changed on the host (in a captured step, each replay does that), and
   *  sets ParamUpdate::time. Errors: CapturePostponed, OutOfMemory. */
  void start(std::span<ParamUpdate> updates);
  /** Returns the end of a step, with a flag that may be undefined, for an update on a device. */
  StepEnd end(const FoundInf& found_inf) const;
  /** Counts a step whose updates have been run: on the CPU, updates and step; on a device, where
   *  the last kernel does that, only that there was one. Returns the number of steps after it, for
   *  was_skipped(); -1 in a capture. Allocates nothing. */
  std::int64_t count(std::span<const ParamUpdate> updates);
  /** Counts a step that the host has skipped, or that has run no updates. */
  void count_on_host(bool skipped);
  /** Called at the end of a step: reports it to the observer if the host has its result, later, as
   *  poll(), if it is `deferred`. */
  void finish(bool deferred);

  // ---- the host's copy --------------------------------------------------------------------------
  /** Copies the counters and results to the host. Waits for the device if its state is newer. */
  void sync_to_host();
  /** Marks the device's state as stale, after the host's has changed. */
  void host_moved() { current_ = false; }
  /** Returns the host's record, as of the latest sync_to_host(). */
  StepRecord& record() { return record_; }
  /** Returns true if the step was skipped after which the optimizer had `steps` steps. Waits for
   *  the device if its state is newer. Errors: StateError if StepResult::kKept more steps were
   *  taken. */
  bool was_skipped(std::int64_t steps);
  /** Sets the observer of skipped steps, and how many consecutive ones are a divergence; 0: no
   *  limit. Each observer has a count of its own. Waits for the device if another observer's steps
   *  are not known yet. Errors: CapturePostponed in that case; those of
   *  OptimizerHooks::skips_found. */
  void observe(const std::shared_ptr<OptimizerHooks>& observer, std::int64_t skip_limit);
  /** Number of steps between two reads of poll(). Each step is reported before 2 * kPollSteps later
   *  ones are taken; a replay that takes several steps reports after them. */
  static constexpr std::int64_t kPollSteps = 50;

  // ---- captured steps ---------------------------------------------------------------------------
  /** Joins the capture in progress, if any. */
  void join_capture();

 private:
  friend class CapturedSteps;
  /** Reads the record asynchronously every kPollSteps steps, and reports it once it has arrived, at
   *  the latest when the next read is due: waits only if the device is kPollSteps steps behind.
   *  Call it after `steps` steps on the device. Errors: CudaError, OutOfMemory; those of
   *  OptimizerHooks::skips_found. */
  void poll(std::int64_t steps);
  /** Reports new skips in a record of the steps to the observer. */
  void notify(const StepRecord& now);
  /** Counts steps that the device takes or skips and that the host's record does not have yet. */
  void run_ahead(std::int64_t steps);
  /** Uploads what has changed on the host. */
  void send();
  /** Makes the memory fit the optimizer's groups, with the values undefined if it was replaced. */
  void allocate(Device device);
  std::vector<std::pair<double, double>> betas() const;

  /** The state on a device. */
  struct Memory {
    Tensor record;  // a StepRecord
    Tensor counters, rates;
  };

  Optimizer* optimizer_;
  StepRecord record_;                             // the host's; `steps` counts those on the device
  std::size_t count_ = 0;                         // of the counters
  std::vector<std::pair<double, double>> betas_;  // of the counters, by group
  Memory memory_;
  std::vector<Memory> copies_;  // of counters and rates, for gradients on other devices
  std::vector<double> sent_rates_;
  bool current_ = false;  // the device's state is as new as the host's, or newer
  bool ahead_ = false;    // the device's state is newer, except for the number of steps
  std::shared_ptr<CapturedSteps> recording_;  // of the capture in progress
  std::weak_ptr<OptimizerHooks> observer_;
  std::int64_t skip_limit_ = 0;
  StepRecord reported_;              // the latest record given to notify()
  std::int64_t since_read_ = 0;      // steps after the start of the latest read of poll()
  std::unique_ptr<AsyncRead> read_;  // of poll(), not reported yet; may be null
};

}  // namespace mezzo::optim
