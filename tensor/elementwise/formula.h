// The vocabulary of the op formulas: constants, selection without branches, integer arithmetic that wraps, common traits.
// Sees: ../math.h, ../op.h. Parsed by g++ and by nvcc.
// Read next: functions.h (the formulas that use it), ../elementwise.h (the list of all).
//
// A formula is a template over V: float or double (std::int64_t too where integers are kept) in kernels, and Tensor while a graph of the
// gradient is built; then it is evaluated in public ops. Constants that are not small integers go through num<V>, so that float formulas
// stay in float. A formula may be differentiated at V = Tensor, so a branch that select does not take must not hold an infinity either:
// its argument is replaced first (0 * inf is nan).
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "../math.h"
#include "../op.h"

namespace mezzo::op {

using namespace math;

template <class V>
concept Scalar = std::same_as<V, float> || std::same_as<V, double> || std::same_as<V, std::int64_t>;

/** A constant in the type of the formula; for tensors the number itself. */
template <class V> MZ_HD constexpr auto num(double value) {
  if constexpr (Scalar<V>)
    return static_cast<V>(value);
  else
    return value;
}

/** condition ? a : b, without a branch; for tensors `where`, found by argument-dependent lookup. */
template <Scalar V> MZ_HD constexpr V select(bool condition, V a, std::type_identity_t<V> b) {
  return condition ? a : b;
}

/** x, for formulas in which exponentials of x are 0 or 1 beyond `size`: at V = Tensor finite values
 *  are limited to [-size, size], so that derivatives do not multiply 0 by an overflow. */
template <class V> MZ_HD V bounded(const V& x, double size) {
  if constexpr (Scalar<V>)
    return static_cast<void>(size), x;
  else
    return select((x > size) & (x < INFINITY), size, select((x < -size) & (x > -INFINITY), -size, x));
}

/** x, through which no gradient goes. */
template <class V> MZ_HD V constant(const V& x) {
  if constexpr (Scalar<V>)
    return x;
  else
    return x.detach();
}

/** The gradient of steps: for tensors the public function of the same name. */
template <Scalar V> MZ_HD constexpr V zeros_like(const V&) { return V(0); }

namespace detail {

/** Integers add and multiply modulo 2^64: overflow of signed types is undefined in C++. */
template <class V> struct Modular { using type = V; };
template <> struct Modular<std::int64_t> { using type = std::uint64_t; };
template <class V> using ModularOf = typename Modular<V>::type;

}  // namespace detail

template <Scalar V> MZ_HD constexpr V plus(V a, V b) {
  using M = detail::ModularOf<V>;
  return static_cast<V>(static_cast<M>(a) + static_cast<M>(b));
}
template <Scalar V> MZ_HD constexpr V minus(V a, V b) {
  using M = detail::ModularOf<V>;
  return static_cast<V>(static_cast<M>(a) - static_cast<M>(b));
}
template <Scalar V> MZ_HD constexpr V times(V a, V b) {
  using M = detail::ModularOf<V>;
  return static_cast<V>(static_cast<M>(a) * static_cast<M>(b));
}

/** Traits of a function of one floating operand with an in-place form. */
constexpr OpTraits unary(std::string_view name, Precision precision, std::string_view summary, Needs needs) {
  return {.name = name, .precision = precision, .summary = summary, .needs = {needs}, .in_place = true};
}

}  // namespace mezzo::op
