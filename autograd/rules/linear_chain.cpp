// mlp in its links, and their gradients.
#include "../../tensor/ops/linear_chain.h"

#include "../../tensor/dispatch.h"
#include "../grad_mode.h"
#include "../ops/activation.h"
#include "../ops/compare.h"
#include "../ops/matmul.h"
#include "../ops/selection.h"
#include "matmul.h"

namespace mezzo::op {

std::vector<Tensor> Mlp::composite(Inputs in, const Attrs& attrs) {
  const bool relu_between = attrs.activation == MlpActivation::relu;
  Tensor h = in[0], mask;
  for (std::size_t i = 1; i + 1 < in.size(); i += 2) {
    const bool first = i == 1, last = i + 3 > in.size();
    const LinearLink::Attrs link{.relu = relu_between && !last, .gates = relu_between && !first};
    auto results = apply_all<LinearLink>(link, h, in[i], in[i + 1], mask);
    h = std::move(results[0]);
    mask = link.relu ? std::move(results[1]) : Tensor{};
    if (last && !attrs.activates_last) break;
    if (attrs.activation == MlpActivation::sigmoid) h = sigmoid(h);
    if (relu_between && last) h = relu(h);
  }
  return {h};
}

Grads LinearLink::backward(const Saved& saved, const Grads& gy) {
  const Tensor &g = gy[0], &x = saved.inputs[0], &w = saved.inputs[1];
  const bool gates = saved.attrs<LinearLink>().gates;
  Grads grads(4);
  if (saved.wants(0) && gates && !grad_enabled())
    grads[0] = apply<LinearInputGrad>(g, w, x, saved.inputs[3]);
  else if (saved.wants(0))
    grads[0] = gates ? where(gt(x, 0.0), matmul(g, w), 0.0) : matmul(g, w);
  // In a graph of gradients x has more readers than the one that gates: these get at it through a relu, which changes nothing else.
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
  auto both = apply_all<op::LinearWeightGrads>({}, g2, x2);
  grads[1] = std::move(both[0]);
  grads[2] = std::move(both[1]);
}

}  // namespace mezzo
