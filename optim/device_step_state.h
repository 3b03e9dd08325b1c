// DeviceStepState: an optimizer's step counters, learning rates and step results in device memory.
// With them, a step is taken or skipped without a host synchronisation.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "../tensor/device/capture.h"
#include "../tensor/memory/transfer.h"
#include "clock.h"
#include "update_settings.h"

namespace mezzo::optim {

class Optimizer;
struct ParamUpdate;

/** The device copy of an optimizer's counters and learning rates. Shared by the optimizer and the
 *  graphs of captured steps. */
class MZ_API DeviceStepState final : public CaptureParticipant,
                                     public std::enable_shared_from_this<DeviceStepState> {
 public:
  explicit DeviceStepState(Optimizer& optimizer) : optimizer_(&optimizer) {}
  /** Called when the optimizer is destroyed. */
  void detach() { optimizer_ = nullptr; }
  /** Returns the optimizer; null after it was destroyed. */
  const Optimizer* owner() const { return optimizer_; }

  /** Prepares a deferred step: uploads what has changed on the host. In a captured step, each
   *  replay does that. Errors: CapturePostponed, OutOfMemory. */
  void start(Device device);
  /** Returns pointers to the learning rate and counters of a parameter. */
  DeviceTime time_of(std::size_t group, std::size_t index) const;
  /** A deferred step that is not counted yet. */
  struct PendingStep {
    std::vector<std::uint64_t> taking_part;  // as ClockCall::taking_part, for all parameters
    Tensor found_inf;                        // may be undefined
    std::int64_t limit;                      // of consecutive skips; 0: no limit
  };
  /** Returns the step of these updates, for defer(). */
  PendingStep pending_step(std::span<const ParamUpdate> updates, const Tensor& found_inf,
                           std::int64_t limit) const;
  /** Makes the step pending; take_pending() or flush() counts it. Allocates nothing. */
  void defer(PendingStep step);
  /** Counts the pending step, except for the last kernel call, which it returns for the caller to
   *  combine with other work. Returns nothing if no step is pending. */
  std::optional<ClockCall> take_pending();
  /** Counts the pending step. */
  void flush();

  /** Returns true if the device's state is newer than the host's. */
  bool is_ahead() const { return ahead_; }
  /** Copies the counters to the optimizer. Waits for the device if its state is newer. */
  void sync_to_host();
  /** Marks the device's state as stale, after a synchronous step or a load. */
  void host_moved() { current_ = false; }
  /** Returns the record of the steps. Waits for the device. */
  StepRecord record();
  /** Starts an asynchronous read of the record. */
  std::unique_ptr<AsyncRead> record_later();
  /** Returns the device of the latest start(). */
  Device device() const { return clocks_.device(); }

  void before_replay() override;
  void after_replay() override;
  void finish_capture() override { flush(); }
  void abandon_capture() noexcept override;
  /** Joins the capture in progress, if any. */
  void join_capture();

 private:
  class MemoryCheck;

  Optimizer& optimizer() const;
  std::vector<ParamClock> of_host() const;
  std::vector<double> rates_of_host() const;
  void send_rates();
  void send();

  Optimizer* optimizer_;
  std::vector<std::size_t> first_;  // index of each group's first clock
  std::size_t count_ = 0;           // number of clocks
  Tensor clocks_, rates_, record_;
  std::vector<double> sent_rates_;
  std::vector<std::pair<double, double>> sent_betas_;
  bool current_ = false;  // the device's state is as new as the host's, or newer
  bool ahead_ = false;    // the device's state is newer
  std::optional<PendingStep> pending_;
};

}  // namespace mezzo::optim
