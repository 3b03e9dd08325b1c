// Shape rules of the links of linear layers, and their operands as matrix products.
#include "linear_chain.h"

#include "../core/dispatch.h"
#include "../core/registry.h"
#include "reduce.h"

namespace mezzo::op {

namespace {

const OpInfo& op_named(std::string_view name) { return *find_op(name); }

std::size_t kind_of(const Tensor& x) { return static_cast<std::size_t>(x.device().kind); }

}  // namespace

OutSpecs LinearLink::infer(Inputs in, const Attrs& attrs) {
  OutSpecs specs = Linear::infer(in.first(3), {});
  const OutSpec& y = specs.items[0];
  return {y, attrs.keeps_sums ? y : OutSpec{{0}, DType::u8}};
}

OutSpecs LinearInputGrad::infer(Inputs in, const Attrs&) {
  return {{in[2].shape(), in[0].dtype()}};
}

OutSpecs LinearWeightGrads::infer(Inputs in, const Attrs& attrs) {
  const std::int64_t out = in[0].shape()[1];
  const DType dtype = in[0].dtype();
  return {{{out, in[1].shape()[1]}, attrs.weight.value_or(dtype)}, {{out}, dtype}};
}

Product product_of(std::type_identity<LinearLink>, Inputs in, Outputs out) {
  return product_of(std::type_identity<Linear>{}, in.first(3), out.first(1), {});
}

Product product_of(std::type_identity<LinearInputGrad>, Inputs in, Outputs out) {
  return product_of(std::type_identity<MatMul>{}, in.first(2), out, {});
}

Product product_of(std::type_identity<LinearWeightGrads>, Inputs in, Outputs out) {
  const Tensor& g = in[0];
  const Tensor gt =
      alias(g, {g.size(1), g.size(0)}, {g.strides()[1], g.strides()[0]}, g.impl()->offset);
  Product product{gt, in[1], out[0]};
  if (out[0].dtype() != g.dtype()) product.rounds_to = g.dtype();
  return product;
}

void activate(const Tensor& x, Tensor& y, MlpActivation activation) {
  static const OpInfo &relu = op_named("relu"), &gelu = op_named("gelu");
  const Gelu::Attrs form = gelu_attrs(activation);
  constexpr NoAttrs none;
  if (activation == MlpActivation::relu)
    return relu.kernel[kind_of(y)](relu, {&x, 1}, {&y, 1}, &none);
  if (is_gelu(activation)) gelu.kernel[kind_of(y)](gelu, {&x, 1}, {&y, 1}, &form);
}

void differentiate_in_place(Tensor& g, const Tensor& y_or_sums, MlpActivation activation) {
  static const OpInfo &relu = op_named("relu"), &gelu = op_named("gelu");
  const Gelu::Attrs form = gelu_attrs(activation);
  constexpr NoAttrs none;
  const std::array<Tensor, 3> by_result{Tensor{}, y_or_sums, g}, by_operand{y_or_sums, Tensor{}, g};
  if (activation == MlpActivation::relu)
    return relu.derivative[kind_of(g)](relu, by_result, {&g, 1}, &none);
  if (is_gelu(activation)) gelu.derivative[kind_of(g)](gelu, by_operand, {&g, 1}, &form);
}

void sum_columns(const Tensor& g, Tensor& sums) {
  static const OpInfo& sum = op_named("sum");
  constexpr ReduceAttrs rows{.dims = 1, .keepdim = false};
  sum.kernel[kind_of(g)](sum, {&g, 1}, {&sums, 1}, &rows);
}

std::span<OpInfo* const> linear_chain_ops() { return infos_of(LinearChainOps{}); }

}  // namespace mezzo::op
