// Counters of launches, copies, allocations and synchronisations on the emulated device, for tests
// of costs per step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../../tensor/core/macros.h"

namespace mezzo::emulator {

struct Counters {
  std::int64_t launches = 0, copies = 0, allocations = 0,
               synchronisations = 0;  // includes replayed graphs
  std::int64_t graph_launches = 0;
};

MZ_API Counters& counters();

/** Returns the ranges that this thread has opened ("name") and closed (""), in order. */
MZ_API std::vector<std::string>& ranges();

/** Scope that logs the device's launches in order: libraries by name, kernels by the place of their
 *  launch. */
class MZ_API LaunchLog {
 public:
  LaunchLog();
  ~LaunchLog();
  LaunchLog(const LaunchLog&) = delete;
  LaunchLog& operator=(const LaunchLog&) = delete;
  std::vector<std::string> names;

 private:
  LaunchLog* outer_;
};

}  // namespace mezzo::emulator
