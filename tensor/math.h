// The scalar functions that elementwise ops compute with: own float forms that vectorise, and <cmath>'s double forms as the oracle.
// Sees: math_exp.h, math_log.h, math_trig.h, math_inverse.h, math_erf.h; parsed by nvcc too.
// Read next: half.h (rounding results to 16 bits).
#pragma once

#include "math_erf.h"
#include "math_exp.h"
#include "math_inverse.h"
#include "math_log.h"
#include "math_trig.h"

// Each own float function is a fixed sequence of + - * / sqrt, selects, bit operations and, where the target has it, fused multiply-add in
// polynomials. Compiled with -ffp-contract=off it gives the same bits in a vector body and in a scalar tail, and GCC and clang vectorise plain loops over it at -O3 -fno-math-errno
// -fno-trapping-math. Errors are stated in units in the last place (ulp) of the float result and are tested.

namespace mezzo::math {

// Functions that are left to <cmath> in float as well.
#define MZ_MATH_UNARY(name)                                 \
  MZ_HD inline float name(float x) { return std::name(x); } \
  MZ_HD inline double name(double x) { return std::name(x); }
MZ_MATH_UNARY(acosh)
MZ_MATH_UNARY(asinh)
MZ_MATH_UNARY(atanh)
MZ_MATH_UNARY(ceil)
MZ_MATH_UNARY(floor)
MZ_MATH_UNARY(sqrt)
MZ_MATH_UNARY(trunc)
#undef MZ_MATH_UNARY

// Double forms of the functions that have an own float form.
#define MZ_MATH_DOUBLE(name) \
  MZ_HD inline double name(double x) { return std::name(x); }
MZ_MATH_DOUBLE(acos)
MZ_MATH_DOUBLE(asin)
MZ_MATH_DOUBLE(atan)
MZ_MATH_DOUBLE(cos)
MZ_MATH_DOUBLE(cosh)
MZ_MATH_DOUBLE(erf)
MZ_MATH_DOUBLE(erfc)
MZ_MATH_DOUBLE(exp)
MZ_MATH_DOUBLE(exp2)
MZ_MATH_DOUBLE(expm1)
MZ_MATH_DOUBLE(log)
MZ_MATH_DOUBLE(log10)
MZ_MATH_DOUBLE(log1p)
MZ_MATH_DOUBLE(log2)
MZ_MATH_DOUBLE(sin)
MZ_MATH_DOUBLE(sinh)
MZ_MATH_DOUBLE(tan)
MZ_MATH_DOUBLE(tanh)
#undef MZ_MATH_DOUBLE

MZ_HD inline double atan2(double y, double x) { return std::atan2(y, x); }
MZ_HD inline double pow(double x, double y) { return std::pow(x, y); }

/** What is left of x after whole multiples of y, with x's sign; exact. */
MZ_HD inline float fmod(float x, float y) { return std::fmod(x, y); }
MZ_HD inline double fmod(double x, double y) { return std::fmod(x, y); }

/** True where fmod_short gives the same bits as fmod, without its loop: the quotient and its product with y fit a double. */
MZ_HD inline bool is_short_quotient(float x, float y) {
  const float size = std::fabs(x), divisor = std::fabs(y);
  return (size * 0x1p-27f < divisor) & (size < detail::kInfinity) & (divisor < detail::kInfinity);
}
MZ_HD inline float fmod_short(float x, float y) {
  const double a = static_cast<double>(x), b = static_cast<double>(y);
  return std::copysign(static_cast<float>(a - std::trunc(a / b) * b), x);
}

/** 1 / sqrt(x): 0 gives infinity, negative NaN. */
MZ_HD inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
MZ_HD inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }

/** 1 / (1 + e^-x), with full relative precision towards 0 as well. */
MZ_HD inline double sigmoid(double x) {
  const double z = std::exp(-std::fabs(x));
  return (x >= 0.0 ? 1.0 : z) / (1.0 + z);
}

}  // namespace mezzo::math
