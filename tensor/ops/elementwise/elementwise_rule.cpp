#include "elementwise_rule.h"

#include "../../core/elementwise_info.h"
#include "../unit_gradient.h"

namespace mezzo::detail {

Tensor formula_operand(const Tensor& x, DType arithmetic) {
  if (!x.defined()) return x;
  return x.impl()->is_scalar && x.dtype() == arithmetic ? x.clone() : x.to(arithmetic);
}

DType formula_arithmetic(const Saved& saved, const Tensor& gy) {
  return gradient_arithmetic(saved.inputs) == DType::f64 ? DType::f64 : compute_dtype(gy.dtype());
}

namespace {

/** Returns factor 1 - i of a product as the gradient of factor i, for an incoming gradient of 1; an
 *  undefined tensor where shapes, dtypes or devices differ. */
Tensor other_factor(const Saved& saved, const Tensor& gy, int i) {
  const Tensor& other = saved.inputs[static_cast<std::size_t>(1 - i)];
  const TensorMeta& meta = saved.input_meta[static_cast<std::size_t>(i)];
  const bool fits = other.defined() && !other.impl()->is_scalar && other.shape() == gy.shape() &&
                    meta.shape == gy.shape() && other.dtype() == meta.dtype &&
                    other.device() == gy.device();
  return fits ? other.detach() : Tensor{};
}

}  // namespace

std::optional<Grads> unit_product_gradients(const Saved& saved, const Tensor& gy) {
  if (!is_unit_gradient(gy) || saved.wants(0) == saved.wants(1)) return {};
  const int i = saved.wants(0) ? 0 : 1;
  Tensor factor = other_factor(saved, gy, i);
  if (!factor.defined()) return {};
  Grads gradients(2);
  gradients[static_cast<std::size_t>(i)] = std::move(factor);
  return gradients;
}

Grads fused_elementwise_backward(const Saved& saved, const Tensor& gy) {
  const std::size_t count = saved.input_meta.size();
  std::array<Tensor, cpu_kernels::kMaxBlockOperands> in, out;
  for (std::size_t i = 0; i < count; ++i) in[i] = saved.inputs[i];
  in[count] = saved.outputs[0];
  in[count + 1] = gy;
  const Inputs operands(in.data(), count + 2);
  const MemoryFormat format = kept_format(saved.info.traits.channels_last, operands, gy.shape());
  const DType arithmetic = gradient_arithmetic(operands);
  for (std::size_t i = 0; i < count; ++i) {
    if (!saved.wanted[i]) continue;
    // A gradient that is summed over broadcast dimensions afterwards is not rounded here, so that
    // there is only one rounding.
    const bool broadcast = !(saved.input_meta[i].shape == gy.shape());
    const DType dtype = saved.gradient_dtype(static_cast<int>(i));
    out[i] = empty_tensor(gy.shape(), broadcast ? arithmetic : dtype, gy.device(), false, format);
  }
  const DerivativeFn kernel = saved.info.derivative[static_cast<std::size_t>(gy.device().kind)];
  kernel(saved.info, operands, {out.data(), count}, saved.attrs_address);
  return Grads(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace mezzo::detail
