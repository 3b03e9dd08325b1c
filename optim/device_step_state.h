// DeviceStepState: an optimizer's step results in device memory, for steps that the device takes or
// skips while the host goes on, and for captured steps.
// See also: device_counters.h (the counters and learning rates that such steps use).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "../tensor/device/capture.h"
#include "../tensor/memory/transfer.h"
#include "device_counters.h"
#include "multi_tensor.h"
#include "step_record.h"

namespace mezzo::optim {

class CapturedSteps;
class OptimizerHooks;

/** The results of an optimizer's steps, on the host and on a device, with the device copy of its
 *  counters. Shared by the optimizer and the graphs of captured steps. */
class MZ_API DeviceStepState final : public std::enable_shared_from_this<DeviceStepState> {
 public:
  explicit DeviceStepState(Optimizer& optimizer) : optimizer_(&optimizer) {}
  /** Called when the optimizer is destroyed. */
  void detach() { optimizer_ = nullptr; }
  /** Returns the optimizer; null after it was destroyed. */
  Optimizer* owner() const { return optimizer_; }
  /** Returns the optimizer. Errors: StateError in the name of a replay if it was destroyed. */
  Optimizer& optimizer() const;

  /** Prepares a step whose counters are on the device: uploads what has changed on the host. In a
   *  captured step, each replay does that. Errors: CapturePostponed, OutOfMemory. */
  void start(Device device);
  /** Returns the device copy of the counters. */
  const DeviceCounters& counters() const { return counters_; }
  /** Returns the calls that count a step of these updates, unless `found` is raised; it may be
   *  undefined. */
  std::vector<StepCall> count_of(std::span<const ParamUpdate> updates, const FoundInf& found) const;
  /** Runs the calls that count a step, except for the last, which it keeps with its flag for
   *  take_pending() or flush(). Returns the number of steps after it, for was_skipped(); -1 in a
   *  capture. Allocates nothing. */
  std::int64_t defer(std::span<const StepCall> count, const FoundInf& found);
  /** Returns the call that counts the pending step, for the caller to combine with other work; one
   *  that does nothing if no step is pending. */
  StepCall take_pending() { return std::exchange(pending_, {}).value_or(StepCall{}); }
  /** Counts the pending step. */
  void flush();

  /** Copies the counters and results to the host. Waits for the device if its state is newer. */
  void sync_to_host();
  /** Marks the device's state as stale, after a synchronous step or a load. */
  void host_moved() { current_ = false; }
  /** Counts steps that the device takes or skips and that the host's record does not have yet. */
  void run_ahead(std::int64_t steps);
  /** Returns the device of the latest start(); the CPU before the first. */
  Device device() const { return counters_.device(); }

  // ---- results ----------------------------------------------------------------------------------
  /** Returns the host's record, as of the latest sync_to_host(). */
  StepRecord& record() { return record_; }
  /** Sets the observer of skipped steps, and how many consecutive ones are a divergence; 0: no
   *  limit. Each observer has a count of its own. Waits for the device if another observer's steps
   *  are not known yet. Errors: CapturePostponed in that case; those of
   *  OptimizerHooks::skips_found. */
  void observe(const std::weak_ptr<OptimizerHooks>& observer, std::int64_t skip_limit);
  /** Returns the number of consecutive skips that are a divergence. */
  std::int64_t skip_limit() const { return skip_limit_; }
  /** Reports new skips in a record of the steps to the observer. */
  void notify(const StepRecord& now);
  /** Reads the record asynchronously every kPollSteps steps, and reports it once it has arrived, at
   *  the latest when the next read is due: waits only if the device is kPollSteps steps behind.
   *  Call it after `steps` steps on the device. Errors: CudaError, OutOfMemory; those of
   *  OptimizerHooks::skips_found. */
  void poll(std::int64_t steps);
  /** Number of steps between two reads. Each step is reported before 2 * kPollSteps later ones are
   *  taken; a replay that takes several steps reports after them. */
  static constexpr std::int64_t kPollSteps = 50;
  /** Returns true if the step was skipped after which the optimizer had `steps` steps. Waits for
   *  the device if its state is newer. Errors: StateError if StepResult::kKept more steps were
   *  taken. */
  bool was_skipped(std::int64_t steps);

  // ---- captured steps ---------------------------------------------------------------------------
  /** Joins the capture in progress, if any. */
  void join_capture();
  /** The capture has ended: drops a step that is still pending. */
  void end_capture() noexcept;
  /** Uploads what has changed on the host. */
  void send();

 private:
  Optimizer* optimizer_;
  DeviceCounters counters_;
  StepRecord record_;
  Tensor memory_;                    // the record on the device
  bool current_ = false;             // the device's state is as new as the host's, or newer
  bool ahead_ = false;               // the device's state is newer
  std::int64_t steps_ahead_ = 0;     // while ahead_: steps that the device will have counted
  std::optional<StepCall> pending_;  // counts a step; empty: no step is pending
  FoundInf pending_flag_;            // keeps the memory alive that it reads
  std::shared_ptr<CapturedSteps> recording_;  // of the capture in progress
  std::weak_ptr<OptimizerHooks> observer_;
  std::int64_t skip_limit_ = 0;
  // Other observers with their consecutive skips.
  std::vector<std::pair<std::weak_ptr<OptimizerHooks>, std::int64_t>> former_observers_;
  StepRecord reported_;              // the latest record given to notify()
  std::int64_t since_read_ = 0;      // steps after the start of the latest read of poll()
  std::unique_ptr<AsyncRead> read_;  // of poll(), not reported yet; may be null
};

}  // namespace mezzo::optim
