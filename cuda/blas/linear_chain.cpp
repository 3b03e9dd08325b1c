// Linear layers on the device: bias, activation and their gradients are fused into the products
// where cuBLASLt supports it.
#include "../../tensor/ops/linear_chain.h"

#include <algorithm>
#include <array>

#include "../../tensor/core/row_major.h"
#include "../../tensor/ops/copy.h"
#include "../attach.h"
#include "product.h"

namespace mezzo::gpu {

namespace {

using Kind = blas::Epilogue::Kind;

/** Returns the operands in row-major layout, which the library supports: where fusing changes the
 *  bits, it must not depend on strides. */
template <std::size_t kCount> std::array<Tensor, kCount> rows_of(Inputs in) {
  std::array<Tensor, kCount> rows;
  for (std::size_t i = 0; i < kCount; ++i)
    if (in[i].defined()) rows[i] = row_major(in[i]);
  return rows;
}
bool are_rows(Inputs in) {
  return std::all_of(in.begin(), in.end(),
                     [](const Tensor& x) { return !x.defined() || x.is_contiguous(); });
}

template <class Op> op::ProductPlan plan_of(Inputs in, Outputs out) {
  return op::plan(op::product_of(std::type_identity<Op>{}, in, out));
}

/** Returns true if the library's gelu may replace Mezzo's: its tanh has few digits, which does not
 *  show in 16-bit results, and it needs rows of whole 16-byte words. */
bool can_fuse_gelu(MlpActivation activation, const op::ProductPlan& plan) {
  return activation == MlpActivation::gelu_tanh && is_low(plan.c.dtype) && plan.n % 8 == 0;
}

void link(Inputs in, Outputs out, const op::LinearLink::Attrs& attrs) {
  const op::ProductPlan plan = plan_of<op::LinearLink>(in, out);
  const Device device = out[0].device();
  Tensor &y = out[0], &kept = out[1];
  const bool masks = attrs.after == MlpActivation::relu && kept.numel() > 0;
  if (masks && run_product_with({Kind::relu, kept.raw_data(), op::mask_bits(plan.n)}, plan, device))
    return;
  void* const sums = attrs.keeps_sums ? kept.raw_data() : nullptr;
  if (can_fuse_gelu(attrs.after, plan)) {
    if (run_product_with({Kind::gelu, sums, sums ? plan.n : 0}, plan, device)) return;
    if (!are_rows(in)) return link(rows_of<4>(in), out, attrs);
  }
  Tensor& plain = attrs.keeps_sums ? kept : y;
  run_product(plan_of<op::LinearLink>(in, {&plain, 1}), device);
  op::activate(plain, y, attrs.after);
  if (attrs.after == MlpActivation::relu)
    kept = empty_tensor({0}, DType::u8, device);  // the mask was not computed
}

void input_grad(Inputs in, Outputs out, const op::LinearInputGrad::Attrs& attrs) {
  const op::ProductPlan plan = plan_of<op::LinearInputGrad>(in, out);
  const Device device = out[0].device();
  const Tensor &x = in[2], &kept = in[3];
  const bool masks = attrs.before == MlpActivation::relu && kept.defined() && kept.numel() > 0;
  if (masks && run_product_with({Kind::gate, kept.raw_data(), op::mask_bits(plan.n)}, plan, device))
    return;
  if (can_fuse_gelu(attrs.before, plan)) {
    if (run_product_with({Kind::through_gelu, kept.raw_data(), plan.n}, plan, device)) return;
    if (!are_rows(in)) return input_grad(rows_of<4>(in), out, attrs);
  }
  run_product(plan, device);
  op::differentiate_in_place(out[0], is_gelu(attrs.before) ? kept : x, attrs.before);
}

void weight_grads(Inputs in, Outputs out, const op::LinearWeightGrads::Attrs& attrs) {
  if (out[0].dtype() != in[0].dtype()) {  // the library rounds once
    Tensor results[] = {empty_tensor(out[0].shape(), in[0].dtype(), out[0].device()), out[1]};
    weight_grads(in, results, {});
    return op::convert_to(results[0], out[0]);
  }
  const op::ProductPlan plan = plan_of<op::LinearWeightGrads>(in, out);
  const Device device = out[0].device();
  if (run_product_with({Kind::row_sums, out[1].raw_data()}, plan, device)) return;
  if (!are_rows(in)) return weight_grads(rows_of<2>(in), out, attrs);
  run_product(plan, device);
  op::sum_columns(in[0], out[1]);
}

}  // namespace

void attach_linear_chain() {
  attach<op::LinearInputGrad, input_grad>();
  attach<op::LinearLink, link>();
  attach<op::LinearWeightGrads, weight_grads>();
}

}  // namespace mezzo::gpu
