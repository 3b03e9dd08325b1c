// The CPU kernels of an elementwise op, made from its struct: forward and gradient over blocks of
// values.
// See also: ../ops/elementwise/kernels_cpu.cpp.in (an instantiation for a list of ops).
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "../core/elementwise_info.h"
#include "../core/macros.h"
#include "../ops/elementwise/apply.h"
#include "block_map.h"

namespace mezzo::cpu_kernels {

namespace detail {

/** Ops with `is_short`: for arguments that satisfy it, `forward_short` (and `gradient_short`) gives
 *  the same bits as the full formula with less work. */
template <class Op, class C>
concept HasShortForm = std::is_same_v<C, float> && requires { &Op::is_short; };

template <class Op, class V, std::size_t... I>
bool all_short(const V* const* x, std::int64_t n, std::index_sequence<I...>) {
  std::int32_t others = 0;
  for (std::int64_t k = 0; k < n; ++k)
    others |= Op::is_short(static_cast<float>(x[I][k])...) ? 0 : 1;
  return others == 0;
}

template <class Op> bool all_in_bf16_range(const BFloat16* x, std::int64_t n) {
  std::uint16_t others = 0;
  for (std::int64_t k = 0; k < n; ++k) others |= Op::bf16_range.contains(x[k]) ? 0 : 1;
  return others == 0;
}

/** Which formula computes a block. */
enum class Formula : std::uint8_t { full, short_form, bf16_form };

/** Returns the result for one value of each operand, converted to C. */
template <class Op, Formula kFormula, class V, class C, std::size_t... I>
inline auto forward_at(const V* const* in, std::int64_t k, const AttrsOf<Op>& attrs,
                       std::index_sequence<I...>) {
  if constexpr (kFormula == Formula::full)
    return elementwise_forward<Op>(attrs, static_cast<C>(in[I][k])...);
  else if constexpr (kFormula == Formula::short_form)
    return Op::forward_short(static_cast<C>(in[I][k])...);
  else
    return elementwise_forward_bf16<Op>(attrs, static_cast<C>(in[I][k])...);
}

template <class Op, class V, class C, Formula kFormula, class Get>
void forward_loop(const V* const* x, C* y, std::int64_t n, Get get) {
  constexpr auto operands = std::make_index_sequence<static_cast<std::size_t>(Op::traits.inputs)>{};
  const AttrsOf<Op> attrs = get();
  MZ_INDEPENDENT_LOOP
  for (std::int64_t k = 0; k < n; ++k)
    y[k] = static_cast<C>(forward_at<Op, kFormula, V, C>(x, k, attrs, operands));
}

template <class Op, class V, class C>
void forward_block(const V* const* in, C* const* out, std::int64_t n, const void* address) {
  constexpr auto operands = std::make_index_sequence<static_cast<std::size_t>(Op::traits.inputs)>{};
  const V* x[kMaxBlockOperands];
  for (int i = 0; i < Op::traits.inputs; ++i) x[i] = in[i];
  with_attrs<Op>(*static_cast<const AttrsOf<Op>*>(address), [&](auto get) {
    if constexpr (std::is_same_v<V, BFloat16> && HasBf16Form<Op>) {
      if (all_in_bf16_range<Op>(x[0], n))
        return forward_loop<Op, V, C, Formula::bf16_form>(x, out[0], n, get);
    } else if constexpr (HasShortForm<Op, C>) {
      if (all_short<Op, V>(x, n, operands))
        return forward_loop<Op, V, C, Formula::short_form>(x, out[0], n, get);
    }
    forward_loop<Op, V, C, Formula::full>(x, out[0], n, get);
  });
}

template <class Op, class V, class C, int I, class Get, std::size_t... J>
void gradient_block_of(const V* const* in, C* gx, std::int64_t n, Get get,
                       std::index_sequence<J...> operands) {
  constexpr std::size_t count = sizeof...(J);
  // Operands that the formula does not use were not saved. The loop reads the incoming gradient
  // instead, which keeps it free of branches.
  const V* g = in[count + 1];
  const V* y = in[count] ? in[count] : g;
  const V* x[count] = {(in[J] ? in[J] : g)...};
  const AttrsOf<Op> attrs = get();
  if constexpr (HasShortForm<Op, C> && requires { &Op::gradient_short; })
    if (all_short<Op, V>(x, n, operands)) {
      MZ_INDEPENDENT_LOOP
      for (std::int64_t k = 0; k < n; ++k)
        gx[k] = Op::gradient_short(static_cast<C>(g[k]), static_cast<C>(x[J][k])...,
                                   static_cast<C>(y[k]));
      return;
    }
  MZ_INDEPENDENT_LOOP
  for (std::int64_t k = 0; k < n; ++k)
    gx[k] = elementwise_gradient<Op, I>(static_cast<C>(g[k]), static_cast<C>(y[k]), attrs,
                                        static_cast<C>(x[J][k])...);
}

template <class Op, class V, class C, class Get, std::size_t... I>
void gradient_blocks(const V* const* in, C* const* out, std::int64_t n, Get get,
                     std::index_sequence<I...> operands) {
  const auto one = [&]<std::size_t J>(std::integral_constant<std::size_t, J>) {
    // A mask has no gradient.
    if constexpr (!Op::traits.is_mask(static_cast<int>(J)))
      if (out[J]) gradient_block_of<Op, V, C, static_cast<int>(J)>(in, out[J], n, get, operands);
  };
  (one(std::integral_constant<std::size_t, I>{}), ...);
}

template <class Op, class V, class C>
void derivative_block(const V* const* in, C* const* out, std::int64_t n, const void* address) {
  with_attrs<Op>(*static_cast<const AttrsOf<Op>*>(address), [&](auto get) {
    gradient_blocks<Op, V, C>(
        in, out, n, get, std::make_index_sequence<static_cast<std::size_t>(Op::traits.inputs)>{});
  });
}

}  // namespace detail

/** The forward kernel of an elementwise op. Computes all outputs from blocks of the operands. */
template <class Op>
void elementwise(const OpInfo& info, Inputs in, Outputs out, const void* attrs) {
  constexpr OpTraits traits = Op::traits;
  BlockFns fns;
  if constexpr (traits.integers != Integers::only) {
    fns.f32 = &detail::forward_block<Op, float, float>;
    fns.f64 = &detail::forward_block<Op, double, double>;
    if constexpr (kLoopsReadBf16) fns.bf16 = &detail::forward_block<Op, BFloat16, float>;
  }
  if constexpr (traits.integers == Integers::keep || traits.integers == Integers::only)
    fns.i64 = &detail::forward_block<Op, std::int64_t, std::int64_t>;
  // The results of questions and of operations on bits fit the type of their operands.
  if constexpr (traits.booleans &&
                (traits.result == ResultType::truth || traits.integers == Integers::only))
    fns.u8 = &detail::forward_block<Op, std::uint8_t, std::uint8_t>;
  const DType compute = elementwise_arithmetic(info, in);
  map_blocks(fns, compute, in, out, attrs);
}

/** The gradient kernel of an elementwise op. `in` holds the operands, the output and the incoming
 *  gradient; `out` the wanted gradients. */
template <class Op>
void elementwise_derivative(const OpInfo&, Inputs in, Outputs out, const void* attrs) {
  BlockFns fns{.f32 = &detail::derivative_block<Op, float, float>,
               .f64 = &detail::derivative_block<Op, double, double>};
  if constexpr (kLoopsReadBf16) fns.bf16 = &detail::derivative_block<Op, BFloat16, float>;
  map_blocks(fns, gradient_arithmetic(in), in, out, attrs);
}

}  // namespace mezzo::cpu_kernels
