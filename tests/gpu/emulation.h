// Helpers of the tests of the emulated device: schedules, compute capability, reported faults.
#pragma once

#include <string>

#include "../emulator/capability.h"
#include "../emulator/executor.h"

namespace emulation {

using mezzo::emulator::Schedule;

inline constexpr Schedule kSchedules[] = {Schedule::forward, Schedule::reverse, Schedule::scrambled,
                                          Schedule::greedy};

/** Sets a schedule until the end of the scope. */
struct ScheduleScope {
  explicit ScheduleScope(Schedule schedule) { mezzo::emulator::set_schedule(schedule); }
  ~ScheduleScope() { mezzo::emulator::set_schedule(Schedule::rotating); }
  ScheduleScope(const ScheduleScope&) = delete;
  ScheduleScope& operator=(const ScheduleScope&) = delete;
};

/** Sets the emulated device's compute capability until the end of the scope. */
struct CapabilityScope {
  explicit CapabilityScope(int capability) { mezzo::emulator::set_compute_capability(capability); }
  ~CapabilityScope() { mezzo::emulator::set_compute_capability(90); }
  CapabilityScope(const CapabilityScope&) = delete;
  CapabilityScope& operator=(const CapabilityScope&) = delete;
};
inline constexpr int kWithoutTensorCores = 61;

/** Sets how many blocks of a cooperative launch run at once, until the end of the scope. */
struct ResidentScope {
  explicit ResidentScope(std::int64_t blocks) { mezzo::emulator::set_resident_blocks(blocks); }
  ~ResidentScope() { mezzo::emulator::set_resident_blocks(before); }
  ResidentScope(const ResidentScope&) = delete;
  ResidentScope& operator=(const ResidentScope&) = delete;
  std::int64_t before = mezzo::emulator::resident_block_limit();
};

/** Returns the text of the fault that a launch causes; empty where there is none. */
template <class Launch> std::string fault_of(Launch&& launch) {
  try {
    launch();
  } catch (const mezzo::emulator::Fault& e) {
    return e.what();
  }
  return "";
}

}  // namespace emulation
