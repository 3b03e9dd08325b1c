// The loops of softmax over one line of values, shared with the losses that use softmax.
#pragma once

#include "../../cpu/extreme_row.h"
#include "../../math/math.h"

namespace mezzo::cpu_kernels {

/** Returns the greatest of n values; nan if there is one. */
template <class C> C line_max(const C* x, std::int64_t n) {
  return extreme_of_row(x, n, lowest<C>(), kGreater);
}

template <class C> C line_sum(const C* x, std::int64_t n) {
  constexpr std::int64_t kPiece = 4096;
  if (n <= kPiece) return fold_row(x, n, C(0), kPlus, kPlus);
  C total = 0;
  for (std::int64_t i = 0; i < n; i += kPiece)
    total += fold_row(x + i, std::min(kPiece, n - i), C(0), kPlus, kPlus);
  return total;
}

/** Returns e^x for x <= 88, which holds for values shifted by their maximum; costs half as much as
 *  exp. Results below the normal numbers are 0; nan stays nan. */
MZ_HD inline float shifted_exp(float x) {
  constexpr float kLeast = -87.0f;
  const math::detail::Split e = math::detail::exp_split(x < kLeast ? kLeast : x);
  return x < kLeast ? 0.0f : e.mantissa * math::detail::power_of_two(e.exponent);
}
MZ_HD inline double shifted_exp(double x) { return math::exp(x); }

/** Computes e[i] = exp(x[i] - shift), where shift is their maximum, and returns their sum. */
template <class C> C line_exp(const C* x, C shift, C* e, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) e[i] = shifted_exp(x[i] - shift);
  return line_sum(e, n);
}

/** Returns the sum of exp(x[i] - shift) without storing the exponentials. */
template <class C> C line_exp_sum(const C* x, C shift, std::int64_t n) {
  constexpr std::int64_t kPiece = 1024;
  alignas(64) C e[kPiece];
  C total = 0;
  for (std::int64_t i = 0; i < n; i += kPiece)
    total += line_exp(x + i, shift, e, std::min(kPiece, n - i));
  return total;
}

}  // namespace mezzo::cpu_kernels
