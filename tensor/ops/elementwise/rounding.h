// Elementwise sign and rounding; integers stay integers. pointwise.h says what elementwise
// functions have in common. Precision: match (explained in ops.h).
#pragma once

#include "../../core/tensor.h"
#include "formula.h"

namespace mezzo {

/** Returns the absolute value.
 *  Gradient: sign(x), 0 at 0. */
MZ_API Tensor abs(const Tensor& x);
/** Returns the smallest integer not less than x, in x's dtype.
 *  Gradient: 0. */
MZ_API Tensor ceil(const Tensor& x);
/** Returns the largest integer not greater than x, in x's dtype.
 *  Gradient: 0. */
MZ_API Tensor floor(const Tensor& x);
/** Returns x - trunc(x), which has the sign of x.
 *  Gradient: 1. */
MZ_API Tensor frac(const Tensor& x);
/** Returns -x.
 *  Gradient: -1. */
MZ_API Tensor neg(const Tensor& x);
/** Returns the nearest integer; halves go to the even one.
 *  Gradient: 0. */
MZ_API Tensor round(const Tensor& x);
/** Returns -1, 0 or 1; nan stays nan, as in NumPy. PyTorch returns 0 for nan, which would hide an
 *  overflow from the loss scaler.
 *  Gradient: 0. */
MZ_API Tensor sign(const Tensor& x);
/** Returns x rounded towards 0.
 *  Gradient: 0. */
MZ_API Tensor trunc(const Tensor& x);

// In-place forms.
/** Overwrites self with abs(self) and returns it. */
MZ_API const Tensor& abs_(const Tensor& self);
/** Overwrites self with ceil(self) and returns it. */
MZ_API const Tensor& ceil_(const Tensor& self);
/** Overwrites self with floor(self) and returns it. */
MZ_API const Tensor& floor_(const Tensor& self);
/** Overwrites self with frac(self) and returns it. */
MZ_API const Tensor& frac_(const Tensor& self);
/** Overwrites self with neg(self) and returns it. */
MZ_API const Tensor& neg_(const Tensor& self);
/** Overwrites self with round(self) and returns it. */
MZ_API const Tensor& round_(const Tensor& self);
/** Overwrites self with sign(self) and returns it. */
MZ_API const Tensor& sign_(const Tensor& self);
/** Overwrites self with trunc(self) and returns it. */
MZ_API const Tensor& trunc_(const Tensor& self);

}  // namespace mezzo

namespace mezzo::op {

// Parsed by g++ and by nvcc.

/** Returns the traits of a function of one operand that keeps integers as integers. */
constexpr OpTraits integer_unary(std::string_view name, std::string_view summary,
                                 Needs needs = kNothing) {
  return {.name = name,
          .precision = Precision::match,
          .summary = summary,
          .needs = {needs},
          .in_place = true,
          .integers = Integers::keep};
}

struct Abs {
  static constexpr OpTraits traits = integer_unary("abs", "absolute value", input(0));
  template <class V> MZ_HD static V forward(const V& x) {
    return select(x <= V(0), minus(V(0), x), x);
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    return select(x > 0, g, select(x < 0, V(-g), 0));
  }
};

struct Ceil {
  static constexpr OpTraits traits = integer_unary("ceil", "smallest integer not below x");
  template <class V> MZ_HD static V forward(const V& x) {
    if constexpr (std::is_integral_v<V>)
      return x;
    else
      return ceil(x);
  }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V&) {
    return zeros_like(g);
  }
};

struct Floor {
  static constexpr OpTraits traits = integer_unary("floor", "largest integer not above x");
  template <class V> MZ_HD static V forward(const V& x) {
    if constexpr (std::is_integral_v<V>)
      return x;
    else
      return floor(x);
  }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V&) {
    return zeros_like(g);
  }
};

struct Frac {
  static constexpr OpTraits traits = integer_unary("frac", "x - trunc(x)");
  template <class V> MZ_HD static V forward(const V& x) {
    if constexpr (std::is_integral_v<V>)
      return 0;
    else
      return x - trunc(x);
  }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V&) { return g; }
};

struct Neg {
  static constexpr OpTraits traits = integer_unary("neg", "negation");
  template <class V> MZ_HD static V forward(const V& x) {
    if constexpr (std::is_integral_v<V>)
      return minus(V(0), x);
    else
      return -x;
  }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V&) { return -g; }
};

struct Round {
  static constexpr OpTraits traits =
      integer_unary("round", "nearest integer, halves to the even one");
  template <class V> MZ_HD static V forward(const V& x) {
    if constexpr (std::is_integral_v<V>)
      return x;
    else
      return std::nearbyint(x);
  }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V&) {
    return zeros_like(g);
  }
};

struct Sign {
  static constexpr OpTraits traits = integer_unary("sign", "-1, 0 or 1");
  template <class V> MZ_HD static V forward(const V& x) {
    return select(x > V(0), V(1), select(x < V(0), V(-1), x));
  }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V&) {
    return zeros_like(g);
  }
};

struct Trunc {
  static constexpr OpTraits traits = integer_unary("trunc", "x rounded towards zero");
  template <class V> MZ_HD static V forward(const V& x) {
    if constexpr (std::is_integral_v<V>)
      return x;
    else
      return trunc(x);
  }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V&) {
    return zeros_like(g);
  }
};

// clang-format off
/** The ops of one tensor without attributes: tensor/ops/elementwise/rounding.cpp defines function(x) and
 *  function_(x) of each. */
#define MZ_ROUNDINGS(of)                                                                    \
  of(abs, Abs) of(ceil, Ceil) of(floor, Floor) of(frac, Frac) of(neg, Neg) of(round, Round) \
  of(sign, Sign) of(trunc, Trunc)
// clang-format on

using RoundingOps = Extended<type_list<> MZ_ROUNDINGS(MZ_NEXT_TYPE)>::type;

}  // namespace mezzo::op
