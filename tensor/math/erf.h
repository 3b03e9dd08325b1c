// erf, erfc, erfinv and the normal distribution of floats, without branches, so that loops over
// them vectorise. Parsed by g++ and by nvcc.
// See also: math.h (all functions and their double forms).
#pragma once

#include "exp.h"
#include "log.h"

namespace mezzo::math {

/** Returns the error function of x, with full relative precision near 0. Error: below 1.4 ulp. */
MZ_HD inline float erf(float x) {
  using namespace detail;
  const float a = std::fabs(x);
  const float s = x * x;
  const float near_zero =
      x + x * polynomial(s, 0x1.06eba8p-3f, -0x1.81273ep-2f, 0x1.ce2ce6p-4f, -0x1.b7f71ap-6f,
                         0x1.53f224p-8f, -0x1.a3515ep-11f, 0x1.4771fep-14f);
  const float t = a > 3.95f ? 3.95f : a;
  const float log_erfc =
      t * polynomial(t, 0x1.20f21cp+0f, 0x1.451acp-1f, 0x1.b4595ep-4f, -0x1.89603ap-6f,
                     0x1.ec7a8p-9f, -0x1.6f9314p-12f, 0x1.d453ap-17f);
  const float far = 1.0f - exp_normal(-log_erfc);
  return std::copysign(a < 1.0f ? near_zero : far, x);
}

/** Returns 1 - erf(x), with full relative precision in the tail, subnormal results included. Error:
 *  below 0.55 ulp. */
MZ_HD inline float erfc(float x) {
  using namespace detail;
  const float a = std::fabs(x);
  // (1 + 2 a) e^(a^2) erfc(a) is smooth in t = (a - 4) / (a + 4), which maps [0, 10.5] to [-1,
  // 0.45].
  const double w = static_cast<double>(a > 10.5f ? 10.5f : a);
  const double t = (w - 4.0) / (w + 4.0);
  const double smooth =
      polynomial(t, 1.23299511888472124, -0.139621132126406311, 0.0153796040808207232,
                 0.0680978687876132305, -0.101037127681631103, 0.0937217293913749638,
                 -0.0663601239414467053, 0.0372123668685947068, -0.0160160339367183789,
                 0.00507775338920008531, -0.00110533495609561254, -0.000632483002123996382);
  const double tail = exp2_wide(w * w * -1.44269504088896340736) * smooth / (1.0 + 2.0 * w);
  return static_cast<float>(x < 0.0f ? 2.0 - tail : tail);
}

/** The standard normal distribution at x: the probability of values below x, and e^(-x^2/2). */
template <class T> struct Gaussian {
  T below, bell;
};

/** Returns the normal distribution at x. Error of `below`: less than 2.5e-7, and relative less than
 *  3e-5 down to x = -12; error of `bell`: less than 1e-7. */
MZ_HD inline Gaussian<float> gaussian(float x) {
  using namespace detail;
  const float a = at_most(std::fabs(x), 14.5f);   // where the bell is 0
  const float exponent = -0.72134752f * (a * a);  // to base 2
  const Whole n = nearest_whole(exponent);
  // The first power of two is normal; the second rounds once to a subnormal number or 0.
  const float bell = (1.0f + exp2_rest(exponent - n.value)) * power_of_two(n.bits + 32u) * 0x1p-32f;
  // The probability of values above a, divided by the bell, is smooth in t.
  const float t = reciprocal(multiply_add(0.3f, a, 1.0f));
  const float beyond =
      bell * polynomial(t, -0x1.04c0d8p-11f, 0x1.05324ep-3f, 0x1.18e7c6p-4f, 0x1.26190ap-2f,
                        -0x1.184edep-2f, 0x1.ea1428p-2f, -0x1.c1002ap-3f, 0x1.028838p-5f);
  return {x < 0.0f ? beyond : 1.0f - beyond, bell};
}
MZ_HD inline Gaussian<double> gaussian(double x) {
  return {0.5 * std::erfc(x * -0.70710678118654752440), std::exp(-0.5 * x * x)};
}

/** Returns the x with erf(x) = y, within one or two units in the last place of a double. +-1 gives
 *  +-infinity, larger magnitudes NaN. */
MZ_HD inline double erfinv(double y) {
  using detail::polynomial;
  const double a = std::fabs(y);
  if (!(a < 1.0))
    return a == 1.0 ? std::copysign(static_cast<double>(detail::kInfinity), y)
                    : static_cast<double>(detail::kNan);
  double x{};  // starts from a rational approximation with error 3e-3
  if (a <= 0.7) {
    const double z = a * a;
    x = a * polynomial(z, 0.886226899, -1.645349621, 0.914624893, -0.140543331) /
        polynomial(z, 1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801);
  } else {
    const double z = std::sqrt(-std::log((1.0 - a) / 2.0));
    x = polynomial(z, -1.970840454, -1.624906493, 3.429567803, 1.641345311) /
        polynomial(z, 1.0, 3.543889200, 1.637067800);
  }
  // Newton's method; uses erfc in the tail, where erf loses precision.
  for (int step = 0; step < 3; ++step) {
    const double miss = a < 0.5 ? std::erf(x) - a : (1.0 - a) - std::erfc(x);
    x -= miss / (1.12837916709551257390 * std::exp(-x * x));
  }
  return std::copysign(x, y);
}

/** Returns the x with erf(x) = y. +-1 gives +-infinity, larger magnitudes NaN. Error: below 3.5
 * ulp. x / y is smooth in w = -ln(1 - y^2), and in the tails in sqrt(w), as in M. Giles,
 * "Approximating the erfinv function", 2010; minimax fits of relative error 1e-8. */
MZ_HD MZ_ALWAYS_INLINE float erfinv(float y) {
  using detail::polynomial;
  const float a = std::fabs(y);
  const float w = -log((1.0f - a) * (1.0f + a));
  const float centre = polynomial(
      w - 2.5f, 0x1.805c5ep+0f, 0x1.f91e8ap-3f, -0x1.11c4ecp-8f, -0x1.486616p-10f, 0x1.c9e6c8p-13f,
      -0x1.4d15cep-18f, -0x1.d0c1a8p-19f, 0x1.f48c80p-22f, 0x1.8f228ap-26f, -0x1.2e1012p-27f);
  const float tail =
      polynomial(std::sqrt(w) - 3.125f, 0x1.7aaa3cp+1f, 0x1.00f3b4p+0f, 0x1.ce014ep-8f,
                 -0x1.5b3cb4p-8f, 0x1.ef1f72p-9f, -0x1.4c38ccp-9f, 0x1.59fb64p-10f,
                 -0x1.380b86p-12f, -0x1.7948aap-13f, 0x1.dca498p-14f);
  const float x = y * (w < 5.0f ? centre : tail);
  return a == 1.0f ? std::copysign(detail::kInfinity, y) : x;
}

}  // namespace mezzo::math
