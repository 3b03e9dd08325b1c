// StepClock: an optimizer's counts of steps, its learning rates and the fate of its steps in the memory of its device, so that steps can be
// taken, or skipped, without anybody waiting for them.
// Sees: clock.h, update_settings.h; tensor.
// Read next: step_clock.cpp, optimizer.h (who owns one).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "../tensor/capture.h"
#include "../tensor/transfer.h"
#include "clock.h"
#include "update_settings.h"

namespace mezzo::optim {

class Optimizer;
struct ParamUpdate;

class MZ_API StepClock final : public CaptureGuest, public std::enable_shared_from_this<StepClock> {
 public:
  explicit StepClock(Optimizer& optimizer) : optimizer_(&optimizer) {}
  /** The optimizer ends. */
  void detach() { optimizer_ = nullptr; }
  /** Null once it has ended. */
  const Optimizer* owner() const { return optimizer_; }

  /** Brings to the device what the host knows and the device does not; in a captured step, its replays will.
   *  Errors: CapturePostponed, OutOfMemory. */
  void start(Device device);
  DeviceTime time_of(std::size_t group, std::size_t index) const;
  /** A step that waits to be counted. */
  struct Owed {
    std::vector<std::uint64_t> taking_part;
    Tensor found_inf;
    std::int64_t limit;
  };
  Owed owed(std::span<const ParamUpdate> updates, const Tensor& found_inf, std::int64_t limit) const;
  /** The step is to be counted when `count` or flush() is called next. Needs no memory. */
  void owe(Owed owed);
  /** The step that waits to be counted: all calls but the last are made, the last is handed over to a kernel that does more than count. */
  std::optional<ClockCall> take_owed();
  /** Counts the step that waits. */
  void flush();

  /** The device knows more than the host. */
  bool is_ahead() const { return ahead_; }
  /** Gives the host what the device knows. Waits for the device. */
  void settle();
  /** The host has moved on, by a step of its own or a load: what the device has is out of date. */
  void host_moved() { current_ = false; }
  /** Waits for the device. */
  StepRecord record();
  /** Begins to read the record, and waits for nobody. */
  std::unique_ptr<Readback> record_later();
  Device device() const { return clocks_.device(); }

  void before_replay() override;
  void after_replay() override;
  void finish_capture() override { flush(); }
  void abandon_capture() noexcept override;
  /** Takes part in the capture that is under way, if any. */
  void join_capture();

 private:
  class Places;

  Optimizer& optimizer() const;
  std::vector<ParamClock> of_host() const;
  std::vector<double> rates_of_host() const;
  void send_rates();
  void send();

  Optimizer* optimizer_;
  std::vector<std::size_t> first_;  // of each group among the clocks
  std::size_t count_ = 0;
  Tensor clocks_, rates_, record_;
  std::vector<double> sent_rates_;
  std::vector<std::pair<double, double>> sent_betas_;
  bool current_ = false;  // the device has what the host has, or more
  bool ahead_ = false;
  std::optional<Owed> owed_;
};

}  // namespace mezzo::optim
