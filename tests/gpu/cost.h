// cost_of(): the emulated device's counters for a call.
#pragma once

#include "../emulator/counters.h"

template <class F> mezzo::emulator::Counters cost_of(F&& call) {
  const mezzo::emulator::Counters before = mezzo::emulator::counters();
  call();
  const mezzo::emulator::Counters after = mezzo::emulator::counters();
  return {after.launches - before.launches, after.copies - before.copies,
          after.allocations - before.allocations, after.synchronisations - before.synchronisations,
          after.graph_launches - before.graph_launches};
}
