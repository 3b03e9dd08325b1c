// Elementwise powers, roots and reciprocals. pointwise.h says what elementwise functions have in
// common; ops.h explains the precision tags.
#pragma once

#include "../../math/safe_sum.h"
#include "formula.h"
#include "number.h"

namespace mezzo {

/** Returns x to the power `exponent`; both broadcast. Integers to the power of integers stay
 *  integers. pow(x, 0) is 1, also for x = 0 and nan; a negative base with a fractional exponent
 *  gives nan.
 *  Precision: f32; two tensors are promoted to the wider dtype.
 *  Gradient: exponent * x^(exponent - 1) for x, exactly 0 where the exponent is 0; y ln(x) for
 *  exponent, 0 where x is 0 and the exponent >= 0.
 *  Errors: ValueError for a negative exponent among integers; ShapeError. */
MZ_API Tensor pow(const Tensor& x, const Tensor& exponent);
/** Overwrites self with pow(self, exponent) and returns it. */
MZ_API const Tensor& pow_(const Tensor& self, const Tensor& exponent);

/** Returns a number to the power of each exponent. */
template <Number S> Tensor pow(S base, const Tensor& exponent) {
  return pow(operand(base), exponent);
}
/** Returns x to the power of a number; 2, 3, -1 and 0.5 have shorter formulas. */
template <Number S> Tensor pow(const Tensor& x, S exponent) { return pow(x, operand(exponent)); }
/** Overwrites self with pow(self, exponent) and returns it. */
template <Number S> const Tensor& pow_(const Tensor& self, S exponent) {
  return pow_(self, operand(exponent));
}

/** Returns numerator / x, computed with one division.
 *  Precision: f32 (for the quotient of two tensors, div, it is promote).
 *  Gradient: -numerator/x^2. */
MZ_API Tensor rdiv(const Tensor& x, double numerator);
/** Returns 1/x; 0 gives inf of its sign.
 *  Precision: f32. Gradient: -y^2. */
MZ_API Tensor reciprocal(const Tensor& x);
/** Returns 1/sqrt(x): inf for 0, nan for negative x.
 *  Precision: f32. Gradient: -y^3/2. */
MZ_API Tensor rsqrt(const Tensor& x);
/** Returns the square root; nan for negative x.
 *  Precision: match. Gradient: 1/(2 y), infinite at 0. */
MZ_API Tensor sqrt(const Tensor& x);
/** Returns x * x. Integers stay integers.
 *  Precision: match. Gradient: 2 x. */
MZ_API Tensor square(const Tensor& x);

// In-place forms.
/** Overwrites self with reciprocal(self) and returns it. */
MZ_API const Tensor& reciprocal_(const Tensor& self);
/** Overwrites self with rsqrt(self) and returns it. */
MZ_API const Tensor& rsqrt_(const Tensor& self);
/** Overwrites self with sqrt(self) and returns it. */
MZ_API const Tensor& sqrt_(const Tensor& self);
/** Overwrites self with square(self) and returns it. */
MZ_API const Tensor& square_(const Tensor& self);

}  // namespace mezzo

namespace mezzo::op {

// Parsed by g++ and by nvcc.

/** Returns x^n for n >= 0, modulo 2^64. */
MZ_HD constexpr std::int64_t integer_power(std::int64_t x, std::int64_t n) {
  std::int64_t result = 1;
  for (; n > 0; n >>= 1) {
    if (n & 1) result = times(result, x);
    x = times(x, x);
  }
  return result;
}

/** Returns x, or 1 where the condition holds. For scalars it returns x: the caller's `select` drops
 *  the value, no further derivative is taken, and g++ vectorises the code. */
template <class V, class Condition> MZ_HD V unless(const Condition& condition, const V& x) {
  if constexpr (Scalar<V>)
    return static_cast<void>(condition), x;
  else
    return select(condition, num<V>(1), x);
}

struct Pow {
  static constexpr OpTraits traits{.name = "pow",
                                   .precision = Precision::f32,
                                   .summary = "a to the power b",
                                   .inputs = 2,
                                   .needs = {input(0) | input(1), input(0) | input(1)},
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .last_integers = IntegerDomain::not_negative};
  /** Constant exponents that have a shorter formula. */
  enum class Exponent : std::uint8_t { any, one_half, minus_one, two, three };
  struct Attrs {
    Exponent form = Exponent::any;
  };
  static constexpr Exponent forms[] = {Exponent::any, Exponent::one_half, Exponent::minus_one,
                                       Exponent::two, Exponent::three};
  template <class V> MZ_HD static V forward(const V& a, const V& b, const Attrs& attrs) {
    if (attrs.form == Exponent::two) return times(a, a);
    if (attrs.form == Exponent::three) return times(times(a, a), a);
    if constexpr (std::is_integral_v<V>) {
      return integer_power(a, b);
    } else {
      if (attrs.form == Exponent::minus_one) return 1 / a;
      // pow(-0, 1/2) is +0 and pow(-inf, 1/2) is +inf.
      if (attrs.form == Exponent::one_half)
        return select(a == V(-INFINITY), V(INFINITY), sqrt(a + 0));
      return pow(a, b);
    }
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V& a, const V& b, const Attrs& attrs) {
    if constexpr (I == 0) {
      if (attrs.form == Exponent::two) return 2 * a * g;
      if (attrs.form == Exponent::three) return 3 * a * a * g;
      if (attrs.form == Exponent::minus_one) return -g / a / a;
      if (attrs.form == Exponent::one_half) return g / (2 * sqrt(a));
      const V e = unless(b == 0, b);  // the gradient is 0 at b = 0, even at a = 0
      return select(b == 0, num<V>(0), g * (e * pow(a, e - 1)));
    } else {
      const auto flat = (a == 0) & (b >= 0);
      const V base = unless(flat, a);
      return select(flat, num<V>(0), g * (pow(base, b) * log(base)));
    }
  }
};

struct Rdiv {
  static constexpr OpTraits traits{.name = "rdiv",
                                   .precision = Precision::f32,
                                   .summary = "a number divided by x",
                                   .needs = {input(0)}};
  struct Attrs {
    double numerator = 1;
  };
  template <class V> MZ_HD static V forward(const V& x, const Attrs& attrs) {
    return num<V>(attrs.numerator) / x;
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&, const Attrs& attrs) {
    return -g * (num<V>(attrs.numerator) / x) / x;
  }
};

struct Reciprocal {
  static constexpr OpTraits traits = unary("reciprocal", Precision::f32, "1 / x", output(0));
  template <class V> MZ_HD static V forward(const V& x) { return 1 / x; }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V& y) {
    return -g * y * y;
  }
};

struct Rsqrt {
  static constexpr OpTraits traits = unary("rsqrt", Precision::f32, "1 / sqrt(x)", output(0));
  template <class V> MZ_HD static V forward(const V& x) { return rsqrt(x); }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V& y) {
    return num<V>(-0.5) * g * y * y * y;
  }
};

struct Sqrt {
  static constexpr OpTraits traits = unary("sqrt", Precision::match, "square root", output(0));
  template <class V> MZ_HD static V forward(const V& x) { return sqrt(x); }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V& y) {
    return g / (2 * y);
  }
};

/** The power of two that brings x to [1, 4); 1 from 2^-30 to 2^30, and for 0, infinities and nan.
 */
struct ScaleOf {
  static constexpr OpTraits traits{
      .name = "scale_of", .precision = Precision::match, .needs = {kNothing}, .internal = true};
  template <class V> MZ_HD static V forward(const V& x) {
    return x >= V(0x1p-30) && x <= V(0x1p30) ? V(1) : scale_of(x);
  }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V&) {
    return zeros_like(g);
  }
};

/** Square root of a value that is negative only because of rounding: 0 there, with gradient 0. */
struct SqrtOrZero {
  static constexpr OpTraits traits{.name = "sqrt_or_zero",
                                   .precision = Precision::match,
                                   .needs = {output(0)},
                                   .internal = true};
  template <class V> MZ_HD static V forward(const V& x) {
    return select(x <= 0, num<V>(0), sqrt(select(x <= 0, num<V>(1), x)));
  }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V& y) {
    return select(y == 0, num<V>(0), g / (2 * select(y == 0, num<V>(1), y)));
  }
};

struct Square {
  static constexpr OpTraits traits{.name = "square",
                                   .precision = Precision::match,
                                   .summary = "x * x",
                                   .needs = {input(0)},
                                   .in_place = true,
                                   .integers = Integers::keep};
  template <class V> MZ_HD static V forward(const V& x) { return times(x, x); }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) { return 2 * x * g; }
};

/** The ops of one tensor without attributes: tensor/ops/elementwise/power.cpp defines function(x)
 * and function_(x) of each. */
#define MZ_POWERS(of) of(reciprocal, Reciprocal) of(rsqrt, Rsqrt) of(sqrt, Sqrt) of(square, Square)

using PowerOps = Extended<type_list<Pow, Rdiv, ScaleOf, SqrtOrZero> MZ_POWERS(MZ_NEXT_TYPE)>::type;

}  // namespace mezzo::op
