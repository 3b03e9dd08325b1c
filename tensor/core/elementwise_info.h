// make_elementwise_info: builds the OpInfo of an elementwise op from its struct. The kernels and
// the gradient rule are templates defined in ../cpu/elementwise_kernel.h and
// ../../tensor/ops/elementwise/elementwise_rule.h.
#pragma once

#include "dispatch.h"
#include "has_member.h"

namespace mezzo {

namespace cpu_kernels {
template <class Op> void elementwise(const OpInfo& info, Inputs in, Outputs out, const void* attrs);
template <class Op>
void elementwise_derivative(const OpInfo& info, Inputs in, Outputs out, const void* attrs);
}  // namespace cpu_kernels

/** Returns the type an op computes in on these operands: f32, f64 or i64. Errors: ValueError if
 *  they hold integers that the op is not defined for. */
MZ_API DType elementwise_arithmetic(const OpInfo& info, Inputs in);

/** Returns the type the op's gradients are computed in: f32 or f64. `in` as for a DerivativeFn. */
MZ_API DType gradient_arithmetic(Inputs in);

/** Returns the gradients of an elementwise op: from the fused kernel, or from the op's formula at V
 *  = Tensor while a graph of the gradient is built. */
template <class Op> Grads elementwise_backward(const Saved& saved, const Grads& gy);

namespace detail {

/** An op of one operand with a derivative of one of the forms in elementwise.h. */
template <class Op>
concept HasDerivative =
    requires(float v, const AttrsOf<Op>& attrs) { Op::derivative(v, v); } ||
    requires(float v, const AttrsOf<Op>& attrs) { Op::derivative(v, v, attrs); } ||
    requires(float v, const AttrsOf<Op>& attrs) { Op::gradient(v, v, v); } ||
    requires(float v, const AttrsOf<Op>& attrs) { Op::gradient(v, v, v, attrs); };

}  // namespace detail

/** Returns true, or does not compile if Op has not the members of an elementwise op: the error says
 *  which. */
template <class Op> constexpr bool is_elementwise() {
  constexpr bool is_unary = Op::traits.inputs == 1, has_forward = detail::has_forward<Op>();
  constexpr bool has_derivative =
      !Op::traits.differentiable || !is_unary || detail::HasDerivative<Op>;
  constexpr bool has_gradient =
      !Op::traits.differentiable || is_unary || detail::has_gradient<Op>();
  static_assert(has_forward,
                "an elementwise op needs `template <class V> static V forward(const V& x)`, with a "
                "parameter for each operand; other ops need `infer` and `cpu`, see op.h");
  static_assert(has_derivative,
                "a differentiable op of one operand needs `template <class V> static V "
                "derivative(const V& x, const V& y)` or `gradient(g, x, y)`; else set "
                ".differentiable = false in its traits");
  static_assert(has_gradient,
                "a differentiable op of several operands needs `template <int I, class V> static V "
                "gradient(const V& g, operands...)`; else set .differentiable = false in its "
                "traits");
  return has_forward && has_derivative && has_gradient;
}

/** Returns the OpInfo of an elementwise op. */
template <class Op> constexpr OpInfo make_elementwise_info() {
  OpInfo info{.traits = Op::traits, .attrs = detail::attrs_facts<AttrsOf<Op>>()};
  if constexpr (is_elementwise<Op>()) {  // else the error is enough
    info.elementwise = true;
    info.traits.channels_last = ChannelsLast::like_full;
    info.infer = &infer_elementwise;
    if constexpr (requires(Inputs in, const AttrsOf<Op>& attrs) { Op::check(in, attrs); })
      info.infer = [](const OpInfo& own, Inputs in, const void* attrs) {
        Op::check(in, *static_cast<const AttrsOf<Op>*>(attrs));
        return infer_elementwise(own, in, attrs);
      };
    info.kernel[0] = &cpu_kernels::elementwise<Op>;
    if constexpr (Op::traits.differentiable) {
      info.derivative[0] = &cpu_kernels::elementwise_derivative<Op>;
      info.backward = &elementwise_backward<Op>;
    }
  }
  return info;
}

}  // namespace mezzo
