// ProfileRecorder: the hooks through which a Profiler records this thread's work.
#pragma once

#include <chrono>
#include <string>
#include <unordered_map>
#include <vector>

#include "../tensor/core/dispatch.h"
#include "../tensor/memory/allocator.h"
#include "device_marks.h"
#include "profile_log.h"

namespace mezzo::detail {

/** Returns the nanoseconds of a monotonic clock. */
inline std::int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/** Records the ops, backward rules, ranges and memory of the thread that constructs it, until it is
 *  destroyed. */
class ProfileRecorder final : public NestedTrace, MemoryHook {
 public:
  /** Starts recording. `start` is the time from which times are counted. */
  ProfileRecorder(ProfileLog& log, DeviceMarks& marks, std::int64_t start, bool single_ops);

  void trace(const OpInfo& info, Inputs in, Outputs out) override;
  void enter_forward(const OpInfo& info) override;
  void leave_forward(const OpInfo& info) noexcept override;
  void enter_backward(const OpInfo& info) override;
  void leave_backward(const OpInfo& info, Inputs gy, Inputs gradients) override;
  void enter_range(std::string_view name) override;
  void leave_range() noexcept override;

 private:
  void memory_changed(const Allocator& allocator, MemoryCategory category, std::int64_t bytes,
                      std::int64_t current) noexcept override;
  std::int64_t now() const { return clock_ns() - start_; }
  std::uint32_t name_of(const OpInfo& info, ProfileKind kind);
  void enter(ProfileKind kind, std::uint32_t name, bool starts_backward);
  /** Ends the innermost event. */
  void leave() noexcept;
  void note_tensors(ProfileEvent& event, Inputs in, Inputs out);
  /** Returns the innermost event that is running; null if there is none. */
  ProfileEvent* innermost() { return open_.empty() ? nullptr : &log_.events[open_.back()]; }

  ProfileLog& log_;
  DeviceMarks& marks_;
  std::int64_t start_;
  std::vector<std::size_t> open_;  // events that are running, the innermost last
  std::unordered_map<const OpInfo*, std::uint32_t> op_names_, rule_names_;
  std::string path_;  // of the module, to avoid an allocation per event
};

}  // namespace mezzo::detail
