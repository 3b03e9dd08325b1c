// Counters: what the program has asked of the emulated device so far; tests count launches, copies, allocations and synchronisations per step.
// Sees: the standard library, ../../tensor/macros.h.
// Read next: runtime.cpp.
#pragma once

#include <cstdint>

#include "../../tensor/macros.h"

namespace mezzo::emulator {

struct Counters {
  std::int64_t launches = 0, copies = 0, allocations = 0,
               synchronisations = 0;  // those of replayed graphs too
  std::int64_t graph_launches = 0;
};

MZ_API Counters& counters();

}  // namespace mezzo::emulator
