// Elementwise arithmetic on two and three operands. Parsed by g++ and by nvcc.
#pragma once

#include "formula.h"

namespace mezzo::op {

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
    const V quotient = g / select(squares == 0, num<V>(1), squares) / size;
    if constexpr (I == 0)
      return select(squares == 0, num<V>(0), quotient * x);
    else
      return select(squares == 0, num<V>(0), -quotient * y);
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
      return floor(a / b);
    }
  }
  template <int, class V> MZ_HD static V gradient(const V& g, const V&, const V&) {
    return zeros_like(g);
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
      return -g * constant(V(floor(V(a / b))));
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
              Minimum, Mul, Remainder, Rsub, Sub, TruncDivide>;

}  // namespace mezzo::op
