// Elementwise arithmetic. pointwise.h says what elementwise functions have in common; operators.h
// has the operators + - * /.
//
// Operands are promoted by category (bool < integer < floating-point), and within a category to the
// widest tensor that has dimensions. 0-dim tensors and C++ numbers do not affect the dtype within
// their category. Functions whose result has steps (fmod, remainder, rounded division, ...) round
// their operands to the promoted dtype first. In-place forms compute in the promoted dtype; the
// result has self's dtype.
#pragma once

#include "formula.h"
#include "number.h"

namespace mezzo {

/** Options of add, sub and rsub. */
struct AddOptions {
  double alpha = 1;  // factor of the second operand (of the first in rsub)
};

/** How division rounds the quotient to an integer: not at all, towards 0, or down. */
enum class Rounding : std::uint8_t { none, trunc, floor };

/** Options of div. In PyTorch the field is named rounding_mode. */
struct DivOptions {
  Rounding rounding = Rounding::none;  // how the quotient is rounded
};

/** Options of addcdiv and addcmul. */
struct AddcOptions {
  double value = 1;  // factor of the product or quotient
};

/** Returns a + alpha * b; of bools, a or b.
 *  Precision: promote.
 *  Gradient: 1 for a, alpha for b.
 *  Errors: ShapeError; ValueError when alpha has a fraction and both operands are integers, or when
 *  alpha is neither 0 nor 1 and both are bool. */
MZ_API Tensor add(const Tensor& a, const Tensor& b, const AddOptions& options = {});
/** Returns x + value * a / b, rounded once.
 *  Precision: promote.
 *  Gradient: 1 for x, value/b for a, -value a/b^2 for b.
 *  Errors: ShapeError; DtypeError for integers. */
MZ_API Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b,
                      const AddcOptions& options = {});
/** Returns x + value * a * b, rounded once.
 *  Precision: promote.
 *  Gradient: 1 for x, value b for a, value a for b.
 *  Errors: as sub. */
MZ_API Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b,
                      const AddcOptions& options = {});
/** Returns the angle of the point (x, y) in radians, in [-pi, pi].
 *  Precision: promote.
 *  Gradient: x/(x^2 + y^2) for y, -y/(x^2 + y^2) for x, 0 at the origin. */
MZ_API Tensor atan2(const Tensor& y, const Tensor& x);
/** Returns a / b; integers give f32. With rounding trunc or floor the quotient is rounded to an
 *  integer, and integers stay integers.
 *  Precision: promote.
 *  Gradient: 1/b for a, -a/b^2 for b; 0 with rounding.
 *  Errors: ShapeError; ValueError for an integer divided by 0 with rounding. */
MZ_API Tensor div(const Tensor& a, const Tensor& b, const DivOptions& options = {});
/** Returns the exact quotient of a and b, rounded down: 1 / 0.1 gives 9, as in Python, because 0.1
 *  in floating point is larger. Integers stay integers.
 *  Precision: promote.
 *  Gradient: 0.
 *  Errors: ShapeError; ValueError for an integer divided by 0. */
MZ_API Tensor floor_divide(const Tensor& a, const Tensor& b);
/** Returns the remainder a - trunc(a / b) * b, which has the sign of a.
 *  Precision: promote.
 *  Gradient: 1 for a, -trunc(a/b) for b.
 *  Errors: as floor_divide. */
MZ_API Tensor fmod(const Tensor& a, const Tensor& b);
/** Returns a + w * (b - a), exact for w = 0 and w = 1. Unlike PyTorch, where the difference leaves
 *  the range, or one end is infinite, it returns (1 - w) a + w b, and for w = 0 or 1 an end.
 *  Precision: promote.
 *  Gradient: 1 - w for a, w for b, b - a for w. */
MZ_API Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& w);
/** Returns log(exp(a) + exp(b)), computed without overflow.
 *  Precision: promote.
 *  Gradient: exp(a - y) for a, exp(b - y) for b; 1/2 each where they are equal. Unlike PyTorch,
 * that holds for equal infinities too. */
MZ_API Tensor logaddexp(const Tensor& a, const Tensor& b);
/** Returns x * log(y), and 0 where x is 0 and y is not nan.
 *  Precision: f32; integers and bool give f32.
 *  Gradient: log(y) for x, and 0 where x is 0 and y <= 0; x / y for y, and 0 where both are 0,
 *  unlike PyTorch's nan: the function is 0 there for every y. */
MZ_API Tensor xlogy(const Tensor& x, const Tensor& y);
/** Returns the larger of a and b, or nan where either is nan.
 *  Precision: promote; a number is rounded once to the dtype of the result.
 *  Gradient: 1 for the larger, 1/2 each where they are equal. */
MZ_API Tensor maximum(const Tensor& a, const Tensor& b);
/** Returns the smaller of a and b, or nan where either is nan.
 *  Precision: promote; a number is rounded once to the dtype of the result.
 *  Gradient: 1 for the smaller, 1/2 each where they are equal. */
MZ_API Tensor minimum(const Tensor& a, const Tensor& b);
/** Returns the elementwise product; of bools, a and b.
 *  Precision: promote.
 *  Gradient: b for a, a for b.
 *  Errors: ShapeError. */
MZ_API Tensor mul(const Tensor& a, const Tensor& b);
/** Returns the remainder a - floor(a / b) * b, which has the sign of b.
 *  Precision: promote.
 *  Gradient: 1 for a, -floor(a/b) for b.
 *  Errors: as floor_divide. */
MZ_API Tensor remainder(const Tensor& a, const Tensor& b);
/** Returns b - alpha * a.
 *  Precision: promote.
 *  Gradient: -alpha for a, 1 for b.
 *  Errors: as sub. */
MZ_API Tensor rsub(const Tensor& a, const Tensor& b, const AddOptions& options = {});
/** Returns a - alpha * b.
 *  Precision: promote.
 *  Gradient: 1 for a, -alpha for b.
 *  Errors: ShapeError; DtypeError for bools; ValueError when alpha has a fraction and both are
 *  integers. */
MZ_API Tensor sub(const Tensor& a, const Tensor& b, const AddOptions& options = {});

// In-place forms.
/** Overwrites self with add(self, other, options) and returns it. */
MZ_API const Tensor& add_(const Tensor& self, const Tensor& other, const AddOptions& options = {});
/** Overwrites self with addcdiv(self, a, b, options) and returns it. */
MZ_API const Tensor& addcdiv_(const Tensor& self, const Tensor& a, const Tensor& b,
                              const AddcOptions& options = {});
/** Overwrites self with addcmul(self, a, b, options) and returns it. */
MZ_API const Tensor& addcmul_(const Tensor& self, const Tensor& a, const Tensor& b,
                              const AddcOptions& options = {});
/** Overwrites self with atan2(self, x) and returns it. */
MZ_API const Tensor& atan2_(const Tensor& self, const Tensor& x);
/** Overwrites self with div(self, other, options) and returns it. */
MZ_API const Tensor& div_(const Tensor& self, const Tensor& other, const DivOptions& options = {});
/** Overwrites self with floor_divide(self, other) and returns it. */
MZ_API const Tensor& floor_divide_(const Tensor& self, const Tensor& other);
/** Overwrites self with fmod(self, other) and returns it. */
MZ_API const Tensor& fmod_(const Tensor& self, const Tensor& other);
/** Overwrites self with lerp(self, b, w) and returns it. */
MZ_API const Tensor& lerp_(const Tensor& self, const Tensor& b, const Tensor& w);
/** Overwrites self with mul(self, other) and returns it. */
MZ_API const Tensor& mul_(const Tensor& self, const Tensor& other);
/** Overwrites self with remainder(self, other) and returns it. */
MZ_API const Tensor& remainder_(const Tensor& self, const Tensor& other);
/** Overwrites self with sub(self, other, options) and returns it. */
MZ_API const Tensor& sub_(const Tensor& self, const Tensor& other, const AddOptions& options = {});

// Overloads that take a C++ number as second operand (third for lerp).
#define MZ_WITH_NUMBER(function)                                                                \
  template <Number S> Tensor function(const Tensor& a, S b) { return function(a, operand(b)); } \
  template <Number S> const Tensor& function##_(const Tensor& self, S b) {                      \
    return function##_(self, operand(b));                                                       \
  }
#define MZ_WITH_NUMBER_AND_OPTIONS(function, Options)                                      \
  template <Number S> Tensor function(const Tensor& a, S b, const Options& options = {}) { \
    return function(a, operand(b), options);                                               \
  }                                                                                        \
  template <Number S>                                                                      \
  const Tensor& function##_(const Tensor& self, S b, const Options& options = {}) {        \
    return function##_(self, operand(b), options);                                         \
  }
MZ_WITH_NUMBER_AND_OPTIONS(add, AddOptions)
MZ_WITH_NUMBER_AND_OPTIONS(div, DivOptions)
MZ_WITH_NUMBER(floor_divide)
MZ_WITH_NUMBER(fmod)
MZ_WITH_NUMBER(mul)
MZ_WITH_NUMBER(remainder)
MZ_WITH_NUMBER_AND_OPTIONS(sub, AddOptions)
#undef MZ_WITH_NUMBER
#undef MZ_WITH_NUMBER_AND_OPTIONS
/** Returns lerp(a, b, w) with one weight for all elements. */
template <Number S> Tensor lerp(const Tensor& a, const Tensor& b, S w) {
  return lerp(a, b, operand(w));
}
/** Overwrites self with lerp(self, b, w) and returns it. */
template <Number S> const Tensor& lerp_(const Tensor& self, const Tensor& b, S w) {
  return lerp_(self, b, operand(w));
}
/** Returns b - alpha * a for a number b. */
template <Number S> Tensor rsub(const Tensor& a, S b, const AddOptions& options = {}) {
  return rsub(a, operand(b), options);
}

}  // namespace mezzo

namespace mezzo::op {

// Parsed by g++ and by nvcc.

/** Returns the integer a / b rounded towards zero; b is not 0. Division by -1 is a negation that
 *  wraps, where the machine's division would trap. */
MZ_HD constexpr std::int64_t truncated_quotient(std::int64_t a, std::int64_t b) {
  return b == -1 ? minus<std::int64_t>(0, a) : a / b;
}

/** Returns the traits of an operation on two operands of any number type. */
constexpr OpTraits binary(std::string_view name, std::string_view summary, Needs for_a = kNothing,
                          Needs for_b = kNothing) {
  return {.name = name,
          .precision = Precision::promote,
          .summary = summary,
          .inputs = 2,
          .needs = {for_a, for_b},
          .in_place = true,
          .integers = Integers::keep};
}

/** Returns the traits of a binary operation whose integer divisors must not be 0. */
constexpr OpTraits division(std::string_view name, std::string_view summary, Needs for_a = kNothing,
                            Needs for_b = kNothing) {
  OpTraits traits = binary(name, summary, for_a, for_b);
  traits.last_integers = IntegerDomain::not_zero;
  return traits;
}

/** Returns the traits of a binary operation that keeps bools as bools. */
constexpr OpTraits boolean_binary(std::string_view name, std::string_view summary,
                                  Needs for_a = kNothing, Needs for_b = kNothing) {
  OpTraits traits = binary(name, summary, for_a, for_b);
  traits.booleans = true;
  return traits;
}

struct Add {
  static constexpr OpTraits traits = boolean_binary("add", "a + alpha * b");
  struct Attrs {
    double alpha = 1;
  };
  static void check(Inputs in, const Attrs& attrs);
  template <class V> MZ_HD static V forward(const V& a, const V& b, const Attrs& attrs) {
    return plus(a, times(static_cast<V>(attrs.alpha), b));
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V&, const V&, const Attrs& attrs) {
    if constexpr (I == 0)
      return g;
    else
      return num<V>(attrs.alpha) * g;
  }
};

struct Addcdiv {
  static constexpr OpTraits traits{.name = "addcdiv",
                                   .precision = Precision::promote,
                                   .summary = "x + value * a / b",
                                   .inputs = 3,
                                   .needs = {kNothing, input(2), input(1) | input(2)},
                                   .in_place = true,
                                   .integers = Integers::reject};
  struct Attrs {
    double value = 1;
  };
  template <class V>
  MZ_HD static V forward(const V& x, const V& a, const V& b, const Attrs& attrs) {
    return x + num<V>(attrs.value) * a / b;
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V&, const V& a, const V& b, const Attrs& attrs) {
    if constexpr (I == 0)
      return g;
    else if constexpr (I == 1)
      return num<V>(attrs.value) * g / b;
    else
      return num<V>(-attrs.value) * g * (a / b) / b;
  }
};

struct Addcmul {
  static constexpr OpTraits traits{.name = "addcmul",
                                   .precision = Precision::promote,
                                   .summary = "x + value * a * b",
                                   .inputs = 3,
                                   .needs = {kNothing, input(2), input(1)},
                                   .in_place = true,
                                   .integers = Integers::keep};
  struct Attrs {
    double value = 1;
  };
  static void check(Inputs in, const Attrs& attrs);
  template <class V>
  MZ_HD static V forward(const V& x, const V& a, const V& b, const Attrs& attrs) {
    return plus(x, times(times(static_cast<V>(attrs.value), a), b));
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V&, const V& a, const V& b, const Attrs& attrs) {
    if constexpr (I == 0)
      return g;
    else if constexpr (I == 1)
      return num<V>(attrs.value) * g * b;
    else
      return num<V>(attrs.value) * g * a;
  }
};

struct Atan2 {
  static constexpr OpTraits traits{.name = "atan2",
                                   .precision = Precision::promote,
                                   .summary = "angle of the point (b, a)",
                                   .inputs = 2,
                                   .needs = {input(0) | input(1), input(0) | input(1)},
                                   .in_place = true};
  template <class V> MZ_HD static V forward(const V& a, const V& b) { return atan2(a, b); }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& a, const V& b) {
    // Divide by the larger of both, so that the squares neither overflow nor underflow.
    const V size_a = select(a < 0, V(-a), a), size_b = select(b < 0, V(-b), b);
    const V larger = constant(V(select(size_a > size_b, size_a, size_b)));
    const V size = select((larger > 0) & (larger < INFINITY), larger, 1);
    const V y = a / size, x = b / size, squares = y * y + x * x;
    const V slope = g / select(squares == 0, num<V>(1), squares);
    if constexpr (I == 0)
      return select(squares == 0, num<V>(0), slope * x / size);
    else
      return select(squares == 0, num<V>(0), -slope * y / size);
  }
};

struct Div {
  static constexpr OpTraits traits{.name = "div",
                                   .precision = Precision::promote,
                                   .summary = "true division",
                                   .inputs = 2,
                                   .needs = {input(1), input(0) | input(1)},
                                   .in_place = true};
  template <class V> MZ_HD static V forward(const V& a, const V& b) { return a / b; }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& a, const V& b) {
    if constexpr (I == 0)
      return g / b;
    else
      return -g * (a / b) / b;
  }
};

struct FloorDivide {
  static constexpr OpTraits traits = division("floor_divide", "a / b rounded down");
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    if constexpr (std::is_integral_v<V>) {
      const V quotient = truncated_quotient(a, b);
      return quotient - (a != times(quotient, b) && (a < 0) != (b < 0));
    } else {
      const V quotient = floor(a / b);
      // If a / b was rounded to the next integer, the rest has another sign than b: 1 / 0.1 is 9.
      const auto rest = quotient == 0 ? a : rest_of(a, quotient, b);
      return (rest < 0 && b > 0) || (rest > 0 && b < 0) ? quotient - 1 : quotient;
    }
  }
  template <int, class V> MZ_HD static V gradient(const V& g, const V&, const V&) {
    return zeros_like(g);
  }

 private:
  /** Returns a - quotient * b, with the exact sign. */
  template <class V> MZ_HD static auto rest_of(V a, V quotient, V b) {
#if defined(__FMA__) || defined(__CUDA_ARCH__)
    return std::fma(-quotient, b, a);
#else
    if constexpr (std::is_same_v<V, float>)
      return static_cast<float>(double{a} - double{quotient} * double{b});
    else
      return std::fma(-quotient, b, a);
#endif
  }
};

struct Fmod {
  static constexpr OpTraits traits =
      division("fmod", "remainder with the sign of a", kNothing, input(0) | input(1));
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    if constexpr (std::is_integral_v<V>)
      return b == -1 ? 0 : a % b;
    else
      return fmod(a, b);
  }
  static bool is_short(float a, float b) { return is_short_quotient(a, b); }
  static float forward_short(float a, float b) { return fmod_short(a, b); }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& a, const V& b) {
    if constexpr (I == 0)
      return g;
    else
      return -g * constant(V(trunc(V(a / b))));
  }
};

struct Lerp {
  static constexpr OpTraits traits{.name = "lerp",
                                   .precision = Precision::promote,
                                   .summary = "a + w * (b - a)",
                                   .inputs = 3,
                                   .needs = {input(2), input(2), input(0) | input(1)},
                                   .in_place = true};
  template <class V> MZ_HD static V forward(const V& a, const V& b, const V& w) {
    const V d = b - a;
    // Both forms are exact at their end.
    const V near = select(w < num<V>(0.5), V(a + w * d), V(b - (1 - w) * d));
    // Where the difference leaves the range, or one end is infinite, the ends are weighted.
    const V far = select(w == 0, a, select(w == 1, b, V((1 - w) * a + w * b)));
    return select((d == INFINITY) | (d == -INFINITY), far, near);
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V& a, const V& b, const V& w) {
    if constexpr (I == 0)
      return g * (1 - w);
    else if constexpr (I == 1)
      return g * w;
    else
      return g * (b - a);
  }
};

/** Of equal operands both get half of the gradient, infinite ones too. */
struct Logaddexp {
  static constexpr OpTraits traits{.name = "logaddexp",
                                   .precision = Precision::promote,
                                   .summary = "log(exp(a) + exp(b)), without overflow",
                                   .inputs = 2,
                                   .needs = {input(0) | input(1), input(0) | input(1)}};
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    const V larger = select((a >= b) | (a != a), a, b), smaller = select(a >= b, b, a);
    return larger + log1p(exp(select(a == b, V(0), smaller - larger)));
  }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& a, const V& b) {
    const V lead = select(a == b, num<V>(0), V(I == 0 ? b - a : a - b));
    return g * sigmoid(V(-lead));
  }
};

struct Maximum {
  static constexpr OpTraits traits = [] {
    OpTraits t = boolean_binary("maximum", "the larger of a and b", input(0) | input(1),
                                input(0) | input(1));
    t.in_place = false;
    return t;
  }();
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    return select((a >= b) | (a != a), a, b);
  }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& a, const V& b) {
    const auto loses = I == 0 ? a < b : b < a;
    return select(loses, num<V>(0), select(a == b, V(num<V>(0.5) * g), g));
  }
};

struct Minimum {
  static constexpr OpTraits traits = [] {
    OpTraits t = boolean_binary("minimum", "the smaller of a and b", input(0) | input(1),
                                input(0) | input(1));
    t.in_place = false;
    return t;
  }();
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    return select((a <= b) | (a != a), a, b);
  }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& a, const V& b) {
    const auto loses = I == 0 ? a > b : b > a;
    return select(loses, num<V>(0), select(a == b, V(num<V>(0.5) * g), g));
  }
};

struct Xlogy {
  static constexpr OpTraits traits{.name = "xlogy",
                                   .precision = Precision::f32,
                                   .summary = "x * log(y), 0 where x is 0",
                                   .inputs = 2,
                                   .needs = {input(0) | input(1), input(0) | input(1)}};
  template <class V> MZ_HD static V forward(const V& x, const V& y) {
    return select((x == 0) & (y == y), num<V>(0), V(x * log(y)));
  }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& x, const V& y) {
    if constexpr (I == 0)  // as PyTorch's: 0 too where g is 0, whatever the logarithm
      return select(((x == 0) & (y <= 0)) | ((g == 0) & (y == y)), num<V>(0), V(g * log(y)));
    else
      return g * select((x == 0) & (y == 0), num<V>(0), V(x / y));
  }
};

struct Mul {
  static constexpr OpTraits traits =
      boolean_binary("mul", "product of elements", input(1), input(0));
  template <class V> MZ_HD static V forward(const V& a, const V& b) { return times(a, b); }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& a, const V& b) {
    if constexpr (I == 0)
      return g * b;
    else
      return g * a;
  }
};

struct Remainder {
  static constexpr OpTraits traits =
      division("remainder", "remainder with the sign of b", kNothing, input(0) | input(1));
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    return with_sign_of(b, Fmod::forward(a, b));
  }
  template <class V> MZ_HD static V with_sign_of(const V& b, const V& rest) {
    return select((rest != 0) & ((rest < 0) != (b < 0)), plus(rest, b), rest);
  }
  static bool is_short(float a, float b) { return is_short_quotient(a, b); }
  static float forward_short(float a, float b) { return with_sign_of(b, fmod_short(a, b)); }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& a, const V& b) {
    if constexpr (I == 0)
      return g;
    else
      return -g * constant(quotient_of(a, b));
  }

 private:
  template <class V> MZ_HD static V quotient_of(const V& a, const V& b) {
    if constexpr (std::is_same_v<V, Tensor>)
      return floor_divide(a, b);
    else
      return FloorDivide::forward(a, b);
  }
};

struct Rsub {
  static constexpr OpTraits traits = [] {
    OpTraits t = binary("rsub", "b - alpha * a");
    t.in_place = false;
    return t;
  }();
  struct Attrs {
    double alpha = 1;
  };
  static void check(Inputs in, const Attrs& attrs);
  template <class V> MZ_HD static V forward(const V& a, const V& b, const Attrs& attrs) {
    return minus(b, times(static_cast<V>(attrs.alpha), a));
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V&, const V&, const Attrs& attrs) {
    if constexpr (I == 0)
      return num<V>(-attrs.alpha) * g;
    else
      return g;
  }
};

struct Sub {
  static constexpr OpTraits traits = binary("sub", "a - alpha * b");
  struct Attrs {
    double alpha = 1;
  };
  static void check(Inputs in, const Attrs& attrs);
  template <class V> MZ_HD static V forward(const V& a, const V& b, const Attrs& attrs) {
    return minus(a, times(static_cast<V>(attrs.alpha), b));
  }
  template <int I, class V>
  MZ_HD static V gradient(const V& g, const V&, const V&, const Attrs& attrs) {
    if constexpr (I == 0)
      return g;
    else
      return num<V>(-attrs.alpha) * g;
  }
};

struct TruncDivide {
  static constexpr OpTraits traits = division("trunc_divide", "a / b rounded towards zero");
  template <class V> MZ_HD static V forward(const V& a, const V& b) {
    if constexpr (std::is_integral_v<V>)
      return truncated_quotient(a, b);
    else
      return trunc(a / b);
  }
  template <int, class V> MZ_HD static V gradient(const V& g, const V&, const V&) {
    return zeros_like(g);
  }
};

using ArithmeticOps =
    type_list<Add, Addcdiv, Addcmul, Atan2, Div, FloorDivide, Fmod, Lerp, Logaddexp, Maximum,
              Minimum, Mul, Remainder, Rsub, Sub, TruncDivide, Xlogy>;

}  // namespace mezzo::op
