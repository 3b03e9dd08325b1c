// make_elementwise_row: turns an elementwise op struct into a row; kernels and rule are templates defined elsewhere.
// Sees: dispatch.h.
// Read next: elementwise.h (the op structs), cpu/elementwise_kernel.h, ../autograd/elementwise_rule.h.
#pragma once

#include "dispatch.h"

namespace mezzo {

namespace cpu_kernels {
template <class Op> void elementwise(const OpRow& row, Inputs in, Outputs out, const void* attrs);
template <class Op> void elementwise_derivative(const OpRow& row, Inputs in, Outputs out, const void* attrs);
}  // namespace cpu_kernels

/** The type an op computes in on these operands: f32, f64 or i64. Errors: ValueError where they hold integers that the op is not defined for. */
MZ_API DType elementwise_arithmetic(const OpRow& row, Inputs in);

/** The type its gradients are computed in: f32 or f64. `in` as for a DerivativeFn. */
MZ_API DType gradient_arithmetic(Inputs in);

/** Gradient of an elementwise op: the fused kernel, or the op's own formula at V = Tensor while a graph of the gradient is built. */
template <class Op> Grads elementwise_backward(const Saved& saved, const Grads& gy);

template <class Op> constexpr OpRow make_elementwise_row() {
  OpRow row{.traits = Op::traits, .attrs = detail::attrs_facts<AttrsOf<Op>>()};
  row.elementwise = true;
  row.traits.channels_last = ChannelsLast::like_full;
  row.infer = &infer_elementwise;
  if constexpr (requires(Inputs in, const AttrsOf<Op>& attrs) { Op::check(in, attrs); })
    row.infer = [](const OpRow& own_row, Inputs in, const void* attrs) {
      Op::check(in, *static_cast<const AttrsOf<Op>*>(attrs));
      return infer_elementwise(own_row, in, attrs);
    };
  row.kernel[0] = &cpu_kernels::elementwise<Op>;
  if constexpr (Op::traits.differentiable) {
    row.derivative[0] = &cpu_kernels::elementwise_derivative<Op>;
    row.backward = &elementwise_backward<Op>;
  }
  return row;
}

}  // namespace mezzo
