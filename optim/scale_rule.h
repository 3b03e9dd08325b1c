// The rule by which a loss scale moves, for both scalers and for every device.
// Sees: tensor/macros.h. Parsed by g++ and by nvcc.
// Read next: ../amp/scaler.h, ../amp/grad_scaler.h (whose numbers it runs with), scale_call.h (what runs it on a device).
#pragma once

#include <cstdint>

#include "../tensor/macros.h"

namespace mezzo::optim {

/** The smallest normal f32, below which no scale falls: 1 / scale stays finite. */
inline constexpr double kScaleFloor = 0x1p-126;

/** What stays the same while a scale moves. */
struct ScaleRule {
  double growth = 2, backoff = 0.5;
  double least = kScaleFloor, most = 0;
  std::int64_t window = 2000;  // checks without overflow after which the scale grows
  std::int64_t tolerance = 1;  // overflows in a row, from which on the scale backs off
  bool dynamic = true;         // else checks are only counted
  bool is_f32 = false;         // the scale is kept in f32
  bool stops_at_most = true;   // growth that would lead beyond `most` leads to it; else nowhere
};

/** What moves. */
struct ScaleState {
  double scale = 1;
  std::int64_t unskipped = 0;  // checks without overflow since the last one, or since the scale grew
  std::int64_t tolerance = 1;  // overflows that will still be tolerated

  /** Takes note of one check. */
  MZ_HD void move(const ScaleRule& rule, bool overflow) {
    if (rule.dynamic && overflow) {
      unskipped = 0;
      if (tolerance > 0) --tolerance;
      if (tolerance > 0) return;
      const double lower = scale * rule.backoff;
      const double least = rule.least > kScaleFloor ? rule.least : kScaleFloor;
      scale = kept(rule, lower > least ? lower : least);
      return;
    }
    tolerance = rule.tolerance;
    if (unskipped < INT64_MAX) ++unskipped;
    if (!rule.dynamic || unskipped < rule.window)
      return;  // more than the window where it was loaded or shortened
    unskipped = 0;
    const double higher = kept(rule, scale * rule.growth);
    const bool fits = higher <= rule.most && higher - higher == 0;
    if (fits || rule.stops_at_most) scale = fits ? higher : rule.most;
  }

 private:
  MZ_HD static double kept(const ScaleRule& rule, double value) {
    return rule.is_f32 ? static_cast<double>(static_cast<float>(value)) : value;
  }
};

}  // namespace mezzo::optim
