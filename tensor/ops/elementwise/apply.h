// elementwise_forward, elementwise_gradient: evaluate an op struct's formula for one element,
// whichever of the supported forms it has. Parsed by g++ and by nvcc.
#pragma once

#include <iterator>
#include <type_traits>
#include <utility>

#include "formula.h"

namespace mezzo {

/** Calls f(get), where get() returns the attributes. If they select one of the op's `forms`, get()
 *  is a constant, so that the loop in f is compiled for each form without a branch. */
template <class Op, class F> MZ_HD inline void with_attrs(const AttrsOf<Op>& attrs, F&& f) {
  if constexpr (requires { Op::forms; }) {
    const auto try_form = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
      constexpr auto form = Op::forms[I];
      if (attrs.form != form) return false;
      f([] { return AttrsOf<Op>{form}; });
      return true;
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (try_form(std::integral_constant<std::size_t, I>{}) || ...);
    }(std::make_index_sequence<std::size(Op::forms)>{});
  } else {
    f([attrs] { return attrs; });
  }
}

/** Returns the result for one value of each operand. */
template <class Op, class V, class... Xs>
MZ_HD inline auto elementwise_forward(const AttrsOf<Op>& attrs, const V& x, const Xs&... others) {
  if constexpr (requires { typename Op::Attrs; })
    return Op::forward(x, others..., attrs);
  else
    return Op::forward(x, others...);
}

/** Ops with `forward_bf16`: for a bf16 operand in `bf16_range` it gives the same bits, rounded to
 *  bf16, as the full formula with less work. */
template <class Op>
concept HasBf16Form = requires { &Op::forward_bf16; };

/** Ops with `forward_f16`, on a GPU: for an f16 operand in `f16_range` it gives the same bits,
 *  rounded to f16, as the full formula, or, where that rounds another way, the nearest number. */
template <class Op>
concept HasF16Form = requires { &Op::forward_f16; };

/** Returns the result of the bf16 form, not yet rounded. */
template <class Op> MZ_HD inline float elementwise_forward_bf16(const AttrsOf<Op>& attrs, float x) {
  if constexpr (requires { typename Op::Attrs; })
    return Op::forward_bf16(x, attrs);
  else
    return Op::forward_bf16(x);
}

namespace detail {

/** Returns the gradient of a unary op. Separate from elementwise_gradient because nvcc 13 rejects
 *  packs in a requires-expression. */
template <class Op, class V>
MZ_HD inline V unary_gradient(const V& g, const V& x, const V& y, const AttrsOf<Op>& attrs) {
  if constexpr (requires { Op::gradient(g, x, y); })
    return Op::gradient(g, x, y);
  else if constexpr (requires { Op::gradient(g, x, y, attrs); })
    return Op::gradient(g, x, y, attrs);
  else if constexpr (requires { typename Op::Attrs; })
    return g * Op::derivative(x, y, attrs);
  else
    return g * Op::derivative(x, y);
}

}  // namespace detail

/** Returns the gradient of operand I for one element, by the op's formula. `x` are the operands,
 *  `y` is the result, `g` the incoming gradient. */
template <class Op, int I, class V, class... Xs>
MZ_HD inline V elementwise_gradient(const V& g, const V& y, const AttrsOf<Op>& attrs,
                                    const Xs&... x) {
  if constexpr (sizeof...(Xs) == 1)
    return detail::unary_gradient<Op, V>(g, x..., y, attrs);
  else if constexpr (requires { typename Op::Attrs; })
    return Op::template gradient<I>(g, x..., attrs);
  else
    return Op::template gradient<I>(g, x...);
}

}  // namespace mezzo
