// make_elementwise_info: builds the OpInfo of an elementwise op from its struct. The kernels and
// the gradient rule are templates defined in ../cpu/elementwise_kernel.h and
// ../../autograd/elementwise_rule.h.
#pragma once

#include "dispatch.h"

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

/** Returns the OpInfo of an elementwise op. */
template <class Op> constexpr OpInfo make_elementwise_info() {
  OpInfo info{.traits = Op::traits, .attrs = detail::attrs_facts<AttrsOf<Op>>()};
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
  return info;
}

}  // namespace mezzo
