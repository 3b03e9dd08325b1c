// Building blocks of the op formulas: constants, branch-free selection, wrapping integer
// arithmetic, common traits. Parsed by g++ and by nvcc.
// See also: tensor/core/elementwise.h (the list of all elementwise ops).
//
// A formula is a template over V. In kernels V is float or double (also std::int64_t if integers
// are kept). When the gradient itself is recorded for differentiation, V is Tensor and the formula
// is evaluated in public ops. Constants that are not small integers go through num<V>, so that
// float formulas stay in float. At V = Tensor a formula may be differentiated, so a branch that
// select does not take must not hold an infinity (0 * inf is nan); replace its argument first.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "../../core/op.h"
#include "../../math/for_bf16.h"
#include "../../math/math.h"

namespace mezzo::op {

using namespace math;

/** The list of ops with more at its end. */
template <class List, class... Ops> struct Extended;
template <class... First, class... Ops> struct Extended<type_list<First...>, Ops...> {
  using type = type_list<First..., Ops...>;
};
/** Writes one entry of a list such as MZ_FUNCTIONS as the next argument of Extended. */
#define MZ_NEXT_TYPE(function, Op) , Op

/** The types of a formula in kernels. */
template <class V>
concept Scalar = std::same_as<V, float> || std::same_as<V, double> || std::same_as<V, std::int64_t>;

/** Returns a constant in the type of the formula; for tensors the number itself. */
template <class V> MZ_HD constexpr auto num(double value) {
  if constexpr (Scalar<V>)
    return static_cast<V>(value);
  else
    return value;
}

/** Returns condition ? a : b without a branch; for tensors this is `where`, found by
 *  argument-dependent lookup. */
template <Scalar V> MZ_HD constexpr V select(bool condition, V a, std::type_identity_t<V> b) {
  return condition ? a : b;
}

/** Returns x, for formulas in which exponentials of x are 0 or 1 beyond `size`. At V = Tensor
 *  finite values are limited to [-size, size], so that derivatives do not multiply 0 by an
 *  overflow. */
template <class V> MZ_HD V bounded(const V& x, double size) {
  if constexpr (Scalar<V>)
    return static_cast<void>(size), x;
  else
    return select((x > size) & (x < INFINITY), size,
                  select((x < -size) & (x > -INFINITY), -size, x));
}

/** Returns x without a gradient. */
template <class V> MZ_HD V constant(const V& x) {
  if constexpr (Scalar<V>)
    return x;
  else
    return x.detach();
}

/** Returns 0, the gradient of step functions; for tensors this is the public function of the same
 *  name. */
template <Scalar V> MZ_HD constexpr V zeros_like(const V&) { return V(0); }

namespace detail {

/** The type in which V is added and multiplied. Integers use the unsigned type, modulo 2^64,
 *  because overflow of signed types is undefined in C++. */
template <class V> struct Modular {
  using type = V;
};
template <> struct Modular<std::int64_t> {
  using type = std::uint64_t;
};
template <class V> using ModularOf = typename Modular<V>::type;

}  // namespace detail

/** Returns a + b; integers wrap. */
template <Scalar V> MZ_HD constexpr V plus(V a, V b) {
  using M = detail::ModularOf<V>;
  return static_cast<V>(static_cast<M>(a) + static_cast<M>(b));
}
/** Returns a - b; integers wrap. */
template <Scalar V> MZ_HD constexpr V minus(V a, V b) {
  using M = detail::ModularOf<V>;
  return static_cast<V>(static_cast<M>(a) - static_cast<M>(b));
}
/** Returns a * b; integers wrap. */
template <Scalar V> MZ_HD constexpr V times(V a, V b) {
  using M = detail::ModularOf<V>;
  return static_cast<V>(static_cast<M>(a) * static_cast<M>(b));
}

/** Returns the traits of a function of one floating operand with an in-place form. */
constexpr OpTraits unary(std::string_view name, Precision precision, std::string_view summary,
                         Needs needs) {
  return {
      .name = name, .precision = precision, .summary = summary, .needs = {needs}, .in_place = true};
}

}  // namespace mezzo::op
