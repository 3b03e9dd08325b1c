// DeviceCounters: an optimizer's counters and learning rates in device memory.
#pragma once

#include <span>
#include <vector>

#include "../tensor/core/tensor.h"
#include "device_time.h"

namespace mezzo::optim {

class Optimizer;
struct ParamUpdate;

/** The device copy of an optimizer's counters and learning rates. */
class DeviceCounters {
 public:
  /** Returns the device; the CPU before the first allocate(). */
  Device device() const { return clocks_.defined() ? clocks_.device() : cpu; }
  /** Returns true if they are on `device`, with the optimizer's present parameters and betas. */
  bool match(const Optimizer& optimizer, Device device) const;
  /** Throws unless the optimizer has as many parameters as they have counters. Errors:
   *  StateError. */
  void require_count(const Optimizer& optimizer) const;
  /** Makes them match(). Allocates if parameters or the device have changed; the values are
   *  undefined then. Errors: OutOfMemory. */
  void allocate(const Optimizer& optimizer, Device device);
  /** Copies the optimizer's counters to the device. */
  void send(const Optimizer& optimizer);
  /** Copies the optimizer's learning rates to the device, if they have changed. */
  void send_rates(const Optimizer& optimizer);
  /** Copies the device's counters to the optimizer. Waits for the device. */
  void receive(Optimizer& optimizer) const;

  /** Returns pointers to the learning rate and counters of a parameter. */
  DeviceTime time_of(std::size_t group, std::size_t index) const;
  /** Returns at least one call; together they count a step of these updates. */
  std::vector<ClockCall> count_of(std::span<const ParamUpdate> updates) const;

 private:
  static std::vector<std::pair<double, double>> betas_of(const Optimizer& optimizer);

  std::vector<std::size_t> first_;  // index of each group's first clock
  std::size_t count_ = 0;           // number of clocks
  std::vector<std::pair<double, double>> betas_;
  Tensor clocks_, rates_;
  std::vector<double> sent_rates_;
};

}  // namespace mezzo::optim
