#include "elementwise_rule.h"

#include "../../core/elementwise_info.h"
#include "../../core/late_result.h"
#include "../../core/registry.h"
#include "../../cpu/block_map.h"
#include "../reduce/reduce.h"
#include "../shape/copy.h"
#include "../unit_gradient.h"
#include "arithmetic.h"

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

namespace {

bool is_plain_sum(const Saved& saved) {
  static const OpInfo* const add = find_op("add");
  return &saved.info == add && saved.attrs<op::Add>().alpha == 1;
}

}  // namespace

Tensor summed_gradient(const Tensor& gy, const Shape& shape) {
  static const OpInfo& sum = *find_op("sum");
  Tensor y = empty_tensor(shape, gy.dtype(), gy.device());
  const Tensor wide = op::late_to_f32(gy);
  const op::ReduceAttrs first{.dims = (1u << (gy.dim() - shape.rank())) - 1};
  sum.kernel[static_cast<std::size_t>(gy.device().kind)](sum, {&wide, 1}, {&y, 1}, &first);
  return y;
}

namespace {

/** Returns the gradient of operand i of a + b where no kernel need compute it: the incoming one,
 *  which the engine sums if it is of f32 on a device, or its sum; an undefined tensor otherwise.
 *  `format`: of the gradients that a kernel would compute. */
Tensor gradient_of_term(const Saved& saved, const Tensor& gy, int i, MemoryFormat format) {
  const Shape& shape = saved.shape(i);
  const DType dtype = saved.gradient_dtype(i);
  if (dtype != gy.dtype() || !gy.is_contiguous(format) || gy.memory_format() != format) return {};
  if (shape == gy.shape()) return gy;
  const int lead = gy.dim() - shape.rank();
  bool repeats = lead > 0 && gy.device().kind != DeviceKind::cpu &&
                 gy.numel() > 0;  // along the first dimensions
  for (int k = 0; repeats && k < shape.rank(); ++k) repeats = shape[k] == gy.shape()[lead + k];
  if (!repeats || format != MemoryFormat::contiguous) return {};
  return is_low(dtype) ? summed_gradient(gy, shape) : gy;
}

}  // namespace

Grads fused_elementwise_backward(const Saved& saved, const Tensor& gy) {
  const std::size_t count = saved.input_meta.size();
  std::array<Tensor, cpu_kernels::kMaxBlockOperands> in, out;
  for (std::size_t i = 0; i < count; ++i) in[i] = saved.inputs[i];
  in[count] = saved.outputs[0];
  in[count + 1] = gy;
  const std::span<Tensor> operands(in.data(), count + 2);
  const MemoryFormat format = kept_format(saved.info.traits.channels_last, operands, gy.shape());
  const bool is_copied =
      take_channels_last(saved.info, operands, gy.shape()) && format == MemoryFormat::contiguous;
  const MemoryFormat computed = is_copied ? MemoryFormat::channels_last : format;
  const DType arithmetic = gradient_arithmetic(operands);
  const bool passes_on = is_plain_sum(saved);
  Grads gradients(count);
  bool computes = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (!saved.wanted[i]) continue;
    if (passes_on) gradients[i] = gradient_of_term(saved, gy, static_cast<int>(i), format);
    if (gradients[i].defined()) continue;
    // A gradient that is summed over broadcast dimensions afterwards is not rounded here, so that
    // there is only one rounding.
    const bool broadcast = !(saved.input_meta[i].shape == gy.shape());
    const DType dtype = saved.gradient_dtype(static_cast<int>(i));
    out[i] = empty_tensor(gy.shape(), broadcast ? arithmetic : dtype, gy.device(), false, computed);
    computes = true;
  }
  if (!computes) return gradients;
  const DerivativeFn kernel = saved.info.derivative[static_cast<std::size_t>(gy.device().kind)];
  kernel(saved.info, operands, {out.data(), count}, saved.attrs_address);
  for (std::size_t i = 0; i < count; ++i)
    if (out[i].defined()) gradients[i] = is_copied ? late_row_major(out[i]) : out[i];
  return gradients;
}

}  // namespace mezzo::detail
