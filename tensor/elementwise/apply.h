// elementwise_forward, elementwise_gradient: evaluate an op struct's formula for one element,
// whichever of the supported forms it has. Parsed by g++ and by nvcc.
#pragma once

#include "formula.h"

namespace mezzo {

/** Returns the result for one value of each operand. */
template <class Op, class V, class... Xs>
MZ_HD inline auto elementwise_forward(const AttrsOf<Op>& attrs, const V& x, const Xs&... others) {
  if constexpr (requires { typename Op::Attrs; })
    return Op::forward(x, others..., attrs);
  else
    return Op::forward(x, others...);
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
