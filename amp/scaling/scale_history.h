// ScaleHistory: the latest changes of a loss scale and their reasons, to explain skipped steps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../../tensor/core/macros.h"

namespace mezzo::amp {

/** The reason of a ScaleEvent. */
enum class ScaleReason : std::uint8_t {
  /** A gradient was non-finite. The scale may stay due to a bound, hysteresis or a static scale. */
  overflow,
  growth,    // a window without overflow has passed
  set,       // the program set the scale
  restored,  // a saved state was loaded
};

/** Returns the name of a reason, such as "overflow". */
MZ_API std::string_view name(ScaleReason reason);

/** A change of a loss scale, or an overflow. */
struct MZ_API ScaleEvent {
  std::int64_t step = 0;  // number of the check (GradScaler: update), counted from 1
  /** The scale before the event. */
  double old_scale = 0, new_scale = 0;    // the scale after it; the same if an overflow kept it
  ScaleReason reason = ScaleReason::set;  // why the scale changed
  /** Of an overflow: the first non-finite gradient, such as "inf at [3,17] of fc1.weight"; empty if
   *  none was found. */
  std::string first_nonfinite = {};

  /** Returns a text such as "step 7: 65536 -> 32768 (overflow, inf at [3,17] of fc1.weight)". */
  std::string text() const;
};

/** The latest kKept events of one scale. Not part of any saved state. */
class MZ_API ScaleHistory {
 public:
  static constexpr std::size_t kKept = 256;  // greatest number of events

  /** Counts checks. */
  void tick(std::int64_t checks = 1) { step_ += checks; }
  /** Reserves memory for the next event. */
  void make_room() { events_.reserve(kKept); }
  /** Adds an event of the current step; if there are kKept events, drops the oldest. */
  void note(double old_scale, double new_scale, ScaleReason reason,
            std::string first_nonfinite = {});
  /** Returns the events, oldest first. */
  const std::vector<ScaleEvent>& events() const { return events_; }

 private:
  std::int64_t step_ = 0;
  std::vector<ScaleEvent> events_;
};

}  // namespace mezzo::amp
