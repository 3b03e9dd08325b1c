// Factor: a factor of gradients, which may depend on numbers in device memory such as the loss
// scale or a norm for clipping. Parsed by g++ and by nvcc.
#pragma once

#include "../../tensor/core/macros.h"

namespace mezzo::optim {

/** Returns the factor that reduces a gradient's norm to max_norm. Do not apply it if it is 1 or
 *  more. */
MZ_HD constexpr double clip_factor(double norm, double max_norm) {
  return max_norm / (norm + 1e-6);
}

/** Returns the norm that decides about clipping: rounded to f32, if that holds it. */
MZ_HD inline double clipping_norm(double norm, bool is_f32) {
  const bool rounds = is_f32 && norm < 0x1.ffffffp127;  // above, its f32 is infinite
  return rounds ? static_cast<double>(static_cast<float>(norm)) : norm;
}

/** number * *numerator / *divisor, times the clip factor of *norm. Pointers refer to memory of the
 *  device that multiplies, which avoids a host sync. */
struct Factor {
  double number = 1;
  const double* numerator = nullptr;  // null: 1
  const double* divisor = nullptr;    // null: 1
  const double* norm = nullptr;       // null: no clipping
  double max_norm = 0;                // the norm is clipped to this
  bool norm_is_f32 = true;            // round the norm to f32 first

  constexpr Factor(double value = 1) : number(value) {}  // NOLINT: implicit on purpose
  /** Returns number / *divisor. */
  static constexpr Factor over(double number, const double* divisor) {
    Factor factor(number);
    factor.divisor = divisor;
    return factor;
  }

  /** Returns *numerator / *divisor. */
  static constexpr Factor ratio(const double* numerator, const double* divisor) {
    Factor factor = over(1, divisor);
    factor.numerator = numerator;
    return factor;
  }

  /** Returns true if the value needs no device memory. */
  constexpr bool is_number() const { return !divisor && !norm; }

  /** Returns the value; call it where the pointers can be read. */
  MZ_HD double value() const {
    const double whole = numerator ? number * *numerator : number,
                 scaled = divisor ? whole / *divisor : whole;
    if (!norm) return scaled;
    const double clipped = clip_factor(clipping_norm(*norm, norm_is_f32), max_norm);
    return scaled * (clipped >= 1 ? 1 : clipped);  // NaN propagates
  }

  /** Returns the factor times a number. */
  friend constexpr Factor operator*(Factor factor, double multiplier) {
    factor.number *= multiplier;
    return factor;
  }
  friend bool operator==(const Factor&, const Factor&) = default;
};

}  // namespace mezzo::optim
