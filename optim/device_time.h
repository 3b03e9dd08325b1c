// DeviceTime: the learning rate and the counters of a parameter in device memory. Parsed by g++ and
// by nvcc.
#pragma once

#include "clock.h"

namespace mezzo::optim {

/** Values that a step may read from its device: the learning rate and the parameter's
 *  clock. Null pointers: use the host's values. */
struct DeviceTime {
  const double* lr = nullptr;
  const ParamClock* clock = nullptr;

  bool operator==(const DeviceTime&) const = default;
  /** Returns the device's value, or `of_host` if there is none. */
  MZ_HD double rate(double of_host) const { return lr ? *lr : of_host; }
  MZ_HD double correction1(double of_host) const { return clock ? clock->correction1 : of_host; }
  MZ_HD double correction2(double of_host) const { return clock ? clock->correction2 : of_host; }
  /** Returns the number of the update, counted from 1. */
  MZ_HD std::int64_t step(std::int64_t of_host) const { return clock ? clock->steps + 1 : of_host; }
};

}  // namespace mezzo::optim
