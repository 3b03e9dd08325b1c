// Linear layers on the device: bias, activation and their gradients are fused into the products
// where cuBLASLt supports it.
#include "../../tensor/ops/matmul/linear_chain.h"

#include <algorithm>
#include <array>
#include <vector>

#include "../../tensor/core/row_major.h"
#include "../../tensor/ops/shape/copy.h"
#include "../attach.h"
#include "../kernels/matmul/gated_sums.h"
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

/** Returns uninitialised results like those of a call, for a comparison. */
std::vector<Tensor> scratch_like(Outputs out) {
  std::vector<Tensor> scratch;
  for (const Tensor& x : out) scratch.push_back(mezzo::detail::contiguous_scratch(x));
  return scratch;
}

/** Returns the results of a call, and what `call` computes, which runs Mezzo's own kernels. */
template <class Call>
ResultPairs chain_beside_own(Outputs out, const Call& call, double typical = 0) {
  return [out, &call, typical] {
    std::vector<Tensor> own = scratch_like(out);
    const std::vector<Tensor> library(out.begin(), out.end());
    call(own);
    std::vector<ResultPair> pairs;
    for (std::size_t i = 0; i < own.size(); ++i)
      if (library[i].numel() > 0) pairs.push_back({library[i], own[i], i == 0 ? typical : 0});
    return pairs;
  };
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
  const auto own = [&](Outputs results) { link(in, results, attrs); };
  const ResultPairs pairs = chain_beside_own(out, own);
  if (attrs.after == MlpActivation::relu &&
      run_product_with({.kind = Kind::relu}, plan, device, pairs))
    return;
  void* const sums = attrs.keeps_sums ? kept.raw_data() : nullptr;
  if (can_fuse_gelu(attrs.after, plan)) {
    if (run_product_with({Kind::gelu, sums, sums ? plan.n : 0}, plan, device, pairs)) return;
    if (!are_rows(in)) return link(rows_of<4>(in), out, attrs);
  }
  Tensor& plain = attrs.keeps_sums ? kept : y;
  run_product(plan_of<op::LinearLink>(in, {&plain, 1}), device);
  op::activate(plain, y, attrs.after);
}

void input_grad(Inputs in, Outputs out, const op::LinearInputGrad::Attrs& attrs) {
  const op::ProductPlan plan = plan_of<op::LinearInputGrad>(in, out);
  const Device device = out[0].device();
  const Tensor &x = in[2], &kept = in[3];
  const auto own = [&](Outputs results) { input_grad(in, results, attrs); };
  const ResultPairs pairs = chain_beside_own(out, own);
  if (can_fuse_gelu(attrs.before, plan)) {
    if (run_product_with({Kind::through_gelu, kept.raw_data(), plan.n}, plan, device, pairs)) {
      if (attrs.sums) op::sum_columns(out[0], out[1]);
      return;
    }
    if (!are_rows(in)) return input_grad(rows_of<4>(in), out, attrs);
  }
  run_product(plan, device);
  const Tensor& y_or_sums = is_gelu(attrs.before) ? kept : x;
  if (attrs.sums && gate_and_sum_columns(out[0], y_or_sums, attrs.before, out[1])) return;
  op::differentiate_in_place(out[0], y_or_sums, attrs.before);
  if (attrs.sums) op::sum_columns(out[0], out[1]);
}

void weight_grads(Inputs in, Outputs out, const op::LinearWeightGrads::Attrs& attrs) {
  if (out[0].dtype() != in[0].dtype()) {  // the library rounds once
    Tensor results[] = {empty_tensor(out[0].shape(), in[0].dtype(), out[0].device()), out[1]};
    weight_grads(in, results, {.sums = attrs.sums});
    return op::convert_to(results[0], out[0]);
  }
  const op::ProductPlan plan = plan_of<op::LinearWeightGrads>(in, out);
  const Device device = out[0].device();
  const auto own = [&](Outputs results) { weight_grads(in, results, attrs); };
  const ResultPairs pairs = [&] {
    return chain_beside_own(out, own, typical_sum(plan.k, in[0], in[1]))();
  };
  const double multiplications =
      static_cast<double>(plan.m) * static_cast<double>(plan.n) * static_cast<double>(plan.k);
  if (attrs.sums && op::sums_with_product(plan.a.dtype, multiplications)) {
    if (run_product_with({Kind::row_sums, out[1].raw_data()}, plan, device, pairs)) return;
    if (!are_rows(in)) return weight_grads(rows_of<2>(in), out, attrs);
  }
  run_product(plan, device);
  if (attrs.sums) op::sum_columns(in[0], out[1]);
}

}  // namespace

void attach_linear_chain() {
  attach<op::LinearInputGrad, input_grad>();
  attach<op::LinearLink, link>();
  attach<op::LinearWeightGrads, weight_grads>();
}

}  // namespace mezzo::gpu
