// LossScaler: one loss scale, its counters, and the rule by which it moves.
// Sees: properties.h, scale_history.h.
// Read next: scaler.cpp (the rule), scale_loss.h (who applies it).
#pragma once

#include <cstdint>

#include "properties.h"
#include "scale_history.h"

namespace mezzo::amp {

/** Dynamic: starts at 2^16, halves on overflow, doubles after 2000 checks in a row without one, between the bounds. Static: one number. */
class MZ_API LossScaler {
 public:
  static constexpr double kInitialScale = 0x1p16;
  static constexpr double kFactor = 2;
  static constexpr std::int64_t kWindow = 2000;
  static constexpr double kFloor = 0x1p-126;  // the smallest normal f32: 1 / scale stays finite

  /** Starts by the loss scale and the bounds of `properties`. */
  explicit LossScaler(const Properties& properties);

  double loss_scale() const { return scale_; }
  /** Checks without overflow since the last one, or since the scale moved. */
  std::int64_t unskipped() const { return unskipped_; }
  bool dynamic() const { return dynamic_; }

  /** Overwrites the scale; counters and mode stay. Errors: ValueError unless finite and positive. */
  void set_loss_scale(double scale);
  /** Takes note of one check; true when the step must be skipped. Static scalers only count, and never ask for a skip. `culprit` says which
   *  gradient overflowed, for events(). */
  bool update(bool overflow, const std::string& culprit = {});
  /** Takes over saved values. Errors: ValueError; nothing has changed then. */
  void restore(double scale, std::int64_t unskipped);
  static void check(double scale, std::int64_t unskipped);
  /** The latest 256 overflows, growths and changes from outside, oldest first. */
  std::vector<ScaleEvent> events() const { return history_.events(); }

 private:
  double scale_;
  double min_, max_;
  std::int64_t unskipped_ = 0;
  bool dynamic_;
  ScaleHistory history_;
};

}  // namespace mezzo::amp
