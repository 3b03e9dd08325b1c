// Shape rules and gradients of the ops in linear_chain.h.
#include "linear_chain.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../elementwise/activation.h"
#include "../elementwise/compare.h"
#include "../elementwise/elementwise_rule.h"
#include "../elementwise/selection.h"
#include "../reduce/reduce.h"
#include "../require.h"
#include "../wide.h"
#include "matmul.h"
#include "matmul_gradient.h"

namespace mezzo::op {

namespace {

const OpInfo& op_named(std::string_view name) { return *find_op(name); }

std::size_t kind_of(const Tensor& x) { return static_cast<std::size_t>(x.device().kind); }

/** Column sums of rows of x; of no elements if they are not wanted. */
OutSpec sums_of(const Tensor& x, bool wanted) {
  return wanted ? OutSpec{{x.size(-1)}, x.dtype()} : OutSpec{{0}, DType::u8};
}

/** Returns x, [.., columns] and contiguous unless it is a matrix, as a matrix. */
Tensor rows_of(const Tensor& x) {
  if (x.dim() == 2) return x;
  std::int64_t rows = 1;
  for (int i = 0; i < x.dim() - 1; ++i) rows *= x.size(i);
  return alias(x, {rows, x.size(-1)}, {x.size(-1), 1}, x.impl()->offset);
}

}  // namespace

OutSpecs LinearLink::infer(Inputs in, const Attrs& attrs) {
  OutSpecs specs = Linear::infer(in.first(3), {});
  const OutSpec& y = specs.items[0];
  return {y, attrs.keeps_sums ? y : OutSpec{{0}, DType::u8}};
}

OutSpecs LinearInputGrad::infer(Inputs in, const Attrs& attrs) {
  return {{in[2].shape(), in[0].dtype()}, sums_of(in[1], attrs.sums)};
}

OutSpecs LinearWeightGrads::infer(Inputs in, const Attrs& attrs) {
  return {{{in[0].shape()[1], in[1].shape()[1]}, attrs.weight.value_or(in[0].dtype())},
          sums_of(in[0], attrs.sums)};
}

Product product_of(std::type_identity<LinearLink>, Inputs in, Outputs out) {
  return product_of(std::type_identity<Linear>{}, in.first(3), out.first(1), {});
}

Product product_of(std::type_identity<LinearInputGrad>, Inputs in, Outputs out) {
  return product_of(std::type_identity<MatMul>{}, in.first(2), out.first(1), {});
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
  const Tensor matrix = rows_of(g);
  sum.kernel[kind_of(g)](sum, {&matrix, 1}, {&sums, 1}, &rows);
}

std::span<OpInfo* const> linear_chain_ops() { return infos_of(LinearChainOps{}); }

// The composite of mlp, a chain of LinearLink ops, and their gradients.

namespace {

/** Returns the activation that can be fused into a link; sigmoid is a separate op. */
MlpActivation fused(MlpActivation activation) {
  return activation == MlpActivation::sigmoid ? MlpActivation::none : activation;
}

Tensor activated(const Tensor& x, MlpActivation activation) {
  switch (activation) {
    case MlpActivation::relu: return relu(x);
    case MlpActivation::sigmoid: return sigmoid(x);
    case MlpActivation::gelu: return gelu(x);
    case MlpActivation::gelu_tanh: return gelu(x, {GeluApproximation::tanh});
    case MlpActivation::none: break;
  }
  return x;
}

/** Returns g times the derivative of gelu at the sums, in public ops, rounded once. */
Tensor through_gelu(const Tensor& g, const Tensor& sums, MlpActivation activation) {
  return elementwise_gradient<Gelu, 0, Tensor>(wide(g), Tensor{}, gelu_attrs(activation),
                                               wide(sums))
      .to(g.dtype());
}

/** Returns the gradient of a link's sums: their own incoming gradient, plus that of the link's
 *  result from ops other than the next link. */
Tensor gradient_of_sums(const Saved& saved, const Grads& gy) {
  const MlpActivation after = saved.attrs<LinearLink>().after;
  if (!is_gelu(after) || !gy[0].defined()) return is_gelu(after) ? gy[1] : gy[0];
  const Tensor rest = through_gelu(gy[0], saved.outputs[1], after);
  return gy[1].defined() ? gy[1] + rest : rest;
}

}  // namespace

std::vector<Tensor> Mlp::composite(Inputs in, const Attrs& attrs) {
  require_one_floating_dtype(traits.name, in);
  const MlpActivation activation = fused(attrs.activation);
  Tensor h = in[0], sums, bias_before;
  for (std::size_t i = 1; i + 1 < in.size(); i += 2) {
    const bool first = i == 1, last = i + 3 > in.size();
    const Tensor& bias = in[i + 1];
    const bool passes_bias =
        !last && activation != MlpActivation::none && bias.defined() &&
        !sums_with_product(bias.dtype(),
                           static_cast<double>(h.numel()) * static_cast<double>(bias.numel()));
    const LinearLink::Attrs link{.after = last ? MlpActivation::none : activation,
                                 .before = first ? MlpActivation::none : activation,
                                 .keeps_sums = !last && is_gelu(activation) && grad_enabled()};
    auto results = apply_all<LinearLink>(link, h, in[i], passes_bias ? bias.detach() : bias, sums,
                                         bias_before);
    h = std::move(results[0]);
    sums = last ? Tensor{} : std::move(results[1]);
    bias_before = passes_bias ? bias : Tensor{};
    if (last ? attrs.activates_last : activation == MlpActivation::none)
      h = activated(h, attrs.activation);
  }
  return {h};
}

Grads LinearLink::backward(const Saved& saved, const Grads& gy) {
  const Tensor g = gradient_of_sums(saved, gy);
  const Tensor &x = saved.inputs[0], &w = saved.inputs[1], &sums = saved.inputs[3];
  const MlpActivation before = saved.attrs<LinearLink>().before;
  const bool gates = before == MlpActivation::relu;
  const int operand_before = is_gelu(before) ? 3 : 0;  // whose gradient is the input's
  Grads grads(5);
  if (saved.wants(operand_before) || saved.wants(4)) {
    Tensor& gx = grads[static_cast<std::size_t>(operand_before)];
    if (before == MlpActivation::none) {
      gx = matmul(g, w);
    } else if (grad_enabled()) {
      gx = gates ? where(le(x, 0.0), operand(0.0), matmul(g, w))
                 : through_gelu(matmul(g, w), sums, before);
      grads[4] = gx;  // the engine sums it to the bias's shape
    } else {
      const bool sums_bias = saved.wants(4) && saved.shape(4) == Shape{x.size(-1)};
      auto both = apply_all<LinearInputGrad>({before, sums_bias}, g, w, x, sums);
      gx = std::move(both[0]);
      grads[4] = sums_bias ? std::move(both[1]) : gx;
    }
  }
  // While the backward pass is recorded, the weight's gradient also depends on x. It reads x
  // through a relu, which has no effect on the values, so that x's gradient is gated there too.
  linear_parameter_grads(saved, gates && grad_enabled() && x.defined() ? relu(x) : x, g, grads);
  return grads;
}

}  // namespace mezzo::op

namespace mezzo {

void linear_parameter_grads(const Saved& saved, const Tensor& x, const Tensor& g, Grads& grads) {
  const Shape& in = saved.shape(0);
  grads[2] = g;  // the engine sums it to the bias's shape
  if (!saved.wants(1)) return;
  std::int64_t rows = 1;
  for (int i = 0; i < in.rank() - 1; ++i) rows *= in[i];
  const Tensor g2 = g.reshape({rows, g.size(-1)}), x2 = x.reshape({rows, in.back()});
  if (grad_enabled()) {
    grads[1] = matmul(g2.t(), x2);
    return;
  }
  const bool sums = saved.wants(2) && saved.shape(2) == Shape{g.size(-1)};
  auto both = apply_all<op::LinearWeightGrads>({wider_weight_gradient(saved), sums}, g2, x2);
  grads[1] = std::move(both[0]);
  if (sums) grads[2] = std::move(both[1]);
}

}  // namespace mezzo
