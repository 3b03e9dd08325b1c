// Factor: a number to multiply by, some of whose parts only a device may know: the loss scale, the norm to clip to.
// Sees: tensor/macros.h. Parsed by g++ and by nvcc.
// Read next: multi_tensor.h (who multiplies), clip.h.
#pragma once

#include "../tensor/macros.h"

namespace mezzo::optim {

/** What gradients of this norm are multiplied by so that it becomes at most max_norm, unless that is 1 or more. */
MZ_HD constexpr double clip_factor(double norm, double max_norm) { return max_norm / (norm + 1e-6); }

/** number / *divisor or *numerator / *divisor, times what clips a norm. Pointers lead to the memory of the device that multiplies, so that nobody waits for a number to
 *  arrive at the host. */
struct Factor {
  double number = 1;
  const double* numerator = nullptr;  // in place of the number
  const double* divisor = nullptr;
  const double* norm = nullptr;  // clipped to max_norm
  double max_norm = 0;
  bool norm_is_f32 = true;  // it is rounded to f32 first

  constexpr Factor(double value = 1) : number(value) {}  // NOLINT: a number is a factor
  /** A number that the device divides. */
  static constexpr Factor over(double number, const double* divisor) {
    Factor factor(number);
    factor.divisor = divisor;
    return factor;
  }

  /** Two numbers of the device. */
  static constexpr Factor ratio(const double* numerator, const double* divisor) {
    Factor factor = over(1, divisor);
    factor.numerator = numerator;
    return factor;
  }

  /** Whether the host knows the value. */
  constexpr bool is_number() const { return !divisor && !norm; }

  MZ_HD double value() const {
    const double whole = numerator ? *numerator : number, scaled = divisor ? whole / *divisor : whole;
    if (!norm) return scaled;
    const double clipped =
        clip_factor(norm_is_f32 ? static_cast<double>(static_cast<float>(*norm)) : *norm, max_norm);
    return scaled * (clipped >= 1 ? 1 : clipped);  // NaN stays
  }

  friend bool operator==(const Factor&, const Factor&) = default;
};

}  // namespace mezzo::optim
