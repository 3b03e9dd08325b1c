// The scalar functions that elementwise ops use: Mezzo's own float forms, which vectorise, and the
// double forms of <cmath>. Parsed by g++ and by nvcc.
#pragma once

#include "erf.h"
#include "exp.h"
#include "inverse.h"
#include "log.h"
#include "trig.h"

// Mezzo's float functions are fixed sequences of + - * / sqrt, selects, bit operations and, if the
// target has it, fused multiply-add in polynomials. Compiled with -ffp-contract=off they give the
// same bits in a vector body and in a scalar tail. GCC and clang vectorise plain loops over them at
// -O3 -fno-math-errno -fno-trapping-math. Errors are stated in units in the last place (ulp) of the
// float result and are tested.

namespace mezzo::math {

// Functions that use <cmath> in float as well.
#define MZ_MATH_UNARY(name)                                 \
  MZ_HD inline float name(float x) { return std::name(x); } \
  MZ_HD inline double name(double x) { return std::name(x); }
MZ_MATH_UNARY(ceil)
MZ_MATH_UNARY(floor)
MZ_MATH_UNARY(sqrt)
MZ_MATH_UNARY(trunc)
#undef MZ_MATH_UNARY

// Double forms of the functions that have a float form of Mezzo's own.
#define MZ_MATH_DOUBLE(name) \
  MZ_HD inline double name(double x) { return std::name(x); }
MZ_MATH_DOUBLE(acos)
MZ_MATH_DOUBLE(acosh)
MZ_MATH_DOUBLE(asin)
MZ_MATH_DOUBLE(asinh)
MZ_MATH_DOUBLE(atan)
MZ_MATH_DOUBLE(atanh)
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

/** Returns the remainder of x / y with x's sign; exact. */
MZ_HD inline float fmod(float x, float y) { return std::fmod(x, y); }
MZ_HD inline double fmod(double x, double y) { return std::fmod(x, y); }

/** Returns true if fmod_short gives the same bits as fmod without its loop, because the quotient
 *  and its product with y fit a double. */
MZ_HD inline bool is_short_quotient(float x, float y) {
  const float size = std::fabs(x), divisor = std::fabs(y);
  return (size * 0x1p-27f < divisor) & (size < detail::kInfinity) & (divisor < detail::kInfinity);
}
/** Returns fmod(x, y) where is_short_quotient(x, y) is true. */
MZ_HD inline float fmod_short(float x, float y) {
  const double a = static_cast<double>(x), b = static_cast<double>(y);
  return std::copysign(static_cast<float>(a - std::trunc(a / b) * b), x);
}

/** Returns 1 / sqrt(x): 0 gives infinity, negative NaN. */
MZ_HD inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
MZ_HD inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }

/** Returns 1 / (1 + e^-x), with full relative precision towards 0 as well. */
MZ_HD inline double sigmoid(double x) {
  const double z = std::exp(-std::fabs(x));
  return (x >= 0.0 ? 1.0 : z) / (1.0 + z);
}

}  // namespace mezzo::math
