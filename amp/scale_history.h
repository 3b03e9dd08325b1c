// ScaleHistory: what became of a loss scale lately, and why, for whoever wonders about skipped steps.
// Sees: tensor/macros.h.
// Read next: scaler.h, grad_scaler.h (who keep one).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../tensor/macros.h"

namespace mezzo::amp {

/** Why a loss scale has an event. */
enum class ScaleReason : std::uint8_t {
  overflow,  // a gradient was not finite; the scale stays where a bound, hysteresis or a static scale holds it
  growth,    // a window without overflow has passed
  set,       // the program said so
  restored,  // a saved state was loaded
};

MZ_API std::string_view name(ScaleReason reason);

/** One moment in the life of a loss scale. */
struct MZ_API ScaleEvent {
  std::int64_t step = 0;  // checks (GradScaler: updates) since the scaler was made, this one included
  double old_scale = 0, new_scale = 0;
  ScaleReason reason = ScaleReason::set;
  std::string culprit =
      {};  // of an overflow: "inf at [3,17] of fc1.weight", the first such gradient; empty where none was found

  /** "step 7: 65536 -> 32768 (overflow, inf at [3,17] of fc1.weight)" */
  std::string text() const;
};

/** The latest events of one scale; it is not part of any saved state. */
class MZ_API ScaleHistory {
 public:
  static constexpr std::size_t kKept = 256;

  /** Counts checks. */
  void tick(std::int64_t checks = 1) { step_ += checks; }
  /** Takes memory for the next event. */
  void make_room() { events_.reserve(kKept); }
  /** Keeps an event of the current step, in place of the oldest where there are kKept already. */
  void note(double old_scale, double new_scale, ScaleReason reason, std::string culprit = {});
  /** Oldest first. */
  const std::vector<ScaleEvent>& events() const { return events_; }

 private:
  std::int64_t step_ = 0;
  std::vector<ScaleEvent> events_;
};

}  // namespace mezzo::amp
