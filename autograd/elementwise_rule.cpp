#include "elementwise_rule.h"

#include "../tensor/elementwise/arithmetic.h"
#include "../tensor/elementwise_row.h"
#include "unit_gradient.h"

namespace mezzo::detail {

Tensor formula_operand(const Tensor& x, DType arithmetic) {
  if (!x.defined()) return x;
  return x.impl()->is_scalar && x.dtype() == arithmetic ? x.clone() : x.to(arithmetic);
}

DType formula_arithmetic(const Saved& saved, const Tensor& gy) {
  return gradient_arithmetic(saved.inputs) == DType::f64 ? DType::f64 : compute_dtype(gy.dtype());
}

namespace {

/** The other factor, where it is the gradient of a product that the backward pass starts from: 1 times it, bit for bit. */
Tensor other_factor(const Saved& saved, const Tensor& gy, int i) {
  const Tensor& other = saved.inputs[static_cast<std::size_t>(1 - i)];
  const TensorMeta& meta = saved.metas[static_cast<std::size_t>(i)];
  const bool is_it = other.defined() && !other.impl()->is_scalar && other.shape() == gy.shape() &&
                     meta.shape == gy.shape() && other.dtype() == meta.dtype && other.device() == gy.device();
  return is_it ? other.detach() : Tensor{};
}

}  // namespace

Grads fused_elementwise_backward(const Saved& saved, const Tensor& gy) {
  const std::size_t count = saved.metas.size();
  if (&saved.row == &row<op::Mul> && is_unit_gradient(gy) && saved.wants(0) != saved.wants(1)) {
    const int i = saved.wants(0) ? 0 : 1;
    Grads gradients(2);
    gradients[static_cast<std::size_t>(i)] = other_factor(saved, gy, i);
    if (gradients[static_cast<std::size_t>(i)].defined()) return gradients;
  }
  std::array<Tensor, cpu_kernels::kMaxBlockOperands> in, out;
  for (std::size_t i = 0; i < count; ++i) in[i] = saved.inputs[i];
  in[count] = saved.outputs[0];
  in[count + 1] = gy;
  const Inputs operands(in.data(), count + 2);
  const MemoryFormat format = kept_format(saved.row.traits.channels_last, operands, gy.shape());
  const DType arithmetic = gradient_arithmetic(operands);
  for (std::size_t i = 0; i < count; ++i) {
    if (!saved.wanted[i]) continue;
    // A gradient still to be summed over broadcast dimensions stays in the arithmetic's type: one rounding in all.
    const bool broadcast = !(saved.metas[i].shape == gy.shape());
    const DType dtype = saved.gradient_dtype(static_cast<int>(i));
    out[i] = empty_tensor(gy.shape(), broadcast ? arithmetic : dtype, gy.device(), false, format);
  }
  const DerivativeFn kernel = saved.row.derivative[static_cast<std::size_t>(gy.device().kind)];
  kernel(saved.row, operands, {out.data(), count}, saved.attrs_address);
  return Grads(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace mezzo::detail
