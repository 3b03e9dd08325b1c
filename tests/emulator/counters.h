// Counters: what the program has asked of the emulated device so far; tests count launches, copies, allocations and synchronisations per step.
// Sees: the standard library, ../../tensor/macros.h.
// Read next: runtime.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../../tensor/macros.h"

namespace mezzo::emulator {

struct Counters {
  std::int64_t launches = 0, copies = 0, allocations = 0,
               synchronisations = 0;  // those of replayed graphs too
  std::int64_t graph_launches = 0;
};

MZ_API Counters& counters();

/** The ranges that this thread has opened ("name") and closed (""), in their order. */
MZ_API std::vector<std::string>& ranges();

/** While it lives, the launches of the device in their order: libraries by name, kernels by the place that launches them. */
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
