// The composite of mlp, a chain of LinearLink ops, and their gradients.
#include "../../tensor/ops/linear_chain.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/require.h"
#include "../elementwise_rule.h"
#include "../grad_mode.h"
#include "../ops/activation.h"
#include "../ops/compare.h"
#include "../ops/matmul.h"
#include "../ops/selection.h"
#include "matmul.h"
#include "wide.h"

namespace mezzo::op {

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
  Tensor h = in[0], sums;
  for (std::size_t i = 1; i + 1 < in.size(); i += 2) {
    const bool first = i == 1, last = i + 3 > in.size();
    const LinearLink::Attrs link{.after = last ? MlpActivation::none : activation,
                                 .before = first ? MlpActivation::none : activation,
                                 .keeps_sums = !last && is_gelu(activation) && grad_enabled()};
    auto results = apply_all<LinearLink>(link, h, in[i], in[i + 1], sums);
    h = std::move(results[0]);
    sums = last ? Tensor{} : std::move(results[1]);
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
  Grads grads(4);
  if (is_gelu(before)) {
    if (saved.wants(3))
      grads[3] = grad_enabled() ? through_gelu(matmul(g, w), sums, before)
                                : apply_with<LinearInputGrad>({before}, g, w, x, sums);
  } else if (saved.wants(0) && gates && !grad_enabled()) {
    grads[0] = apply_with<LinearInputGrad>({before}, g, w, x, sums);
  } else if (saved.wants(0)) {
    grads[0] = gates ? where(le(x, 0.0), operand(0.0), matmul(g, w)) : matmul(g, w);
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
  if (grad_enabled() || !saved.wants(2) || !(saved.shape(2) == Shape{g.size(-1)})) {
    grads[1] = matmul(g2.t(), x2);
    return;
  }
  auto both = apply_all<op::LinearWeightGrads>({wider_weight_gradient(saved)}, g2, x2);
  grads[1] = std::move(both[0]);
  grads[2] = std::move(both[1]);
}

}  // namespace mezzo
