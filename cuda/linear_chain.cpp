// The links of linear layers on the device: what a product can do on its way is one launch with it.
#include "../tensor/ops/linear_chain.h"

#include <array>

#include "../tensor/row_major.h"
#include "attach.h"
#include "kernels/row.h"
#include "product.h"

namespace mezzo::gpu {

namespace {

using Kind = blas::Epilogue::Kind;

template <class Op> op::ProductPlan plan_of(Inputs in, Outputs out) {
  return op::plan(op::product_of(std::type_identity<Op>{}, in, out));
}

void link(Inputs in, Outputs out, const op::LinearLink::Attrs& attrs) {
  const op::ProductPlan plan = plan_of<op::LinearLink>(in, out);
  const Device device = out[0].device();
  Tensor& mask = out[1];
  const bool masks = attrs.relu && mask.numel() > 0;
  if (masks && run_product_with({Kind::relu, mask.raw_data(), op::mask_bits(plan.n)}, plan, device)) return;
  run_product(plan, device);
  if (!attrs.relu) return;
  op::relu_in_place(out[0]);
  mask = empty_tensor({0}, DType::u8, device);  // nobody filled it
}

void input_grad(Inputs in, Outputs out, const NoAttrs&) {
  const op::ProductPlan plan = plan_of<op::LinearInputGrad>(in, out);
  const Device device = out[0].device();
  const Tensor &x = in[2], &mask = in[3];
  const bool masks = mask.defined() && mask.numel() > 0;
  if (masks && run_product_with({Kind::gate, mask.raw_data(), op::mask_bits(plan.n)}, plan, device)) return;
  run_product(plan, device);
  op::gate_in_place(out[0], x);
}

void weight_grads(Inputs in, Outputs out, const NoAttrs& attrs) {
  const op::ProductPlan plan = plan_of<op::LinearWeightGrads>(in, out);
  const Device device = out[0].device();
  if (run_product_with({Kind::row_sums, out[1].raw_data()}, plan, device)) return;
  if (!in[0].is_contiguous() || !in[1].is_contiguous()) {  // in a layout that it has no form for
    const std::array<Tensor, 2> rows{row_major(in[0]), row_major(in[1])};
    return weight_grads(rows, out, attrs);
  }
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
