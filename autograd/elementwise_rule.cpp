#include "elementwise_rule.h"

namespace mezzo::detail {

Tensor formula_operand(const Tensor& x, const Tensor& gy, bool is_mask) {
  if (!x.defined() || is_mask || (is_floating(x.dtype()) && !x.impl()->is_scalar)) return x;
  const DType arithmetic = compute_dtype(gy.dtype());
  return x.dtype() == arithmetic ? x.clone() : x.to(arithmetic);
}

Grads fused_elementwise_backward(const Saved& saved, const Tensor& gy) {
  const std::size_t count = saved.metas.size();
  std::array<Tensor, cpu_kernels::kMaxBlockOperands> in, out;
  for (std::size_t i = 0; i < count; ++i) in[i] = saved.inputs[i];
  in[count] = saved.outputs[0];
  in[count + 1] = gy;
  for (std::size_t i = 0; i < count; ++i) {
    if (!saved.wanted[i]) continue;
    // A gradient still to be summed over broadcast dimensions stays in the arithmetic's type: one rounding in all.
    const TensorMeta& meta = saved.metas[i];
    const bool broadcast = !(meta.shape == gy.shape());
    out[i] = empty_tensor(gy.shape(), broadcast ? compute_dtype(meta.dtype) : meta.dtype, gy.device());
  }
  const DerivativeFn kernel = saved.row.derivative[static_cast<std::size_t>(gy.device().kind)];
  kernel(saved.row, {in.data(), count + 2}, {out.data(), count}, saved.attrs_address);
  return Grads(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace mezzo::detail
