// ScaleRule and ScaleState: the update rule of every loss scale, on the host and on devices. Parsed
// by g++ and by nvcc.
#pragma once

#include <cstdint>

#include "../../tensor/core/macros.h"

namespace mezzo::amp {

/** The smallest normal f32, the lower bound of every scale: 1 / scale stays finite. */
inline constexpr double kScaleFloor = 0x1p-126;

/** The constants of a loss scale. */
struct ScaleRule {
  double growth = 2;           // factor of a growth
  double backoff = 0.5;        // factor after an overflow
  double least = kScaleFloor;  // lower bound
  double most = 0;             // upper bound
  std::int64_t window = 2000;  // consecutive checks without overflow before the scale grows
  std::int64_t tolerance = 1;  // consecutive overflows after which the scale backs off
  bool dynamic = true;         // false: checks are only counted
  bool is_f32 = false;         // the scale is rounded to f32
  bool stops_at_most = true;   // a growth beyond `most` is cut to `most`; false: it is left out
};

/** A loss scale and its counters. */
struct ScaleState {
  double scale = 1;            // what the loss is multiplied by
  std::int64_t unskipped = 0;  // checks since the last overflow or growth
  std::int64_t tolerance = 1;  // overflows left until the scale backs off

  /** Updates the state after one check. */
  MZ_HD void move(const ScaleRule& rule, bool overflow) {
    if (rule.dynamic && overflow) {
      unskipped = 0;
      if (tolerance > 0) --tolerance;
      if (tolerance > 0) return;
      const double lower = scale * rule.backoff;
      const double least = rule.least > kScaleFloor ? rule.least : kScaleFloor;
      scale = rounded(rule, lower > least ? lower : least);
      return;
    }
    tolerance = rule.tolerance;
    if (unskipped < INT64_MAX) ++unskipped;
    // unskipped can exceed the window after a load or a change of the window.
    if (!rule.dynamic || unskipped < rule.window) return;
    unskipped = 0;
    const double higher = rounded(rule, scale * rule.growth);
    const bool fits = higher <= rule.most && higher - higher == 0;
    if (fits || rule.stops_at_most) scale = fits ? higher : rule.most;
  }

 private:
  /** Returns the value as the rule stores it. */
  MZ_HD static double rounded(const ScaleRule& rule, double value) {
    return rule.is_f32 ? static_cast<double>(static_cast<float>(value)) : value;
  }
};

}  // namespace mezzo::amp
