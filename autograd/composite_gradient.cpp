#include "../tensor/ops/composite_gradient.h"

#include "../tensor/core/dispatch.h"
#include "../tensor/ops/shape/view.h"
#include "engine.h"

namespace mezzo {

Grads gradients_of_composite(
    const Saved& saved, const Grads& gy,
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& body) {
  // Each input gets its own node in the graph. An input may have been computed from another one,
  // but only gradients through the op count here.
  std::vector<Tensor> inputs(saved.inputs.begin(), saved.inputs.end()), wanted;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!saved.wanted[i]) continue;
    inputs[i] = apply_with<op::Expand>({inputs[i].shape()}, inputs[i]);
    wanted.push_back(inputs[i]);
    places.push_back(i);
  }
  const std::vector<Tensor> results = body(inputs);
  std::vector<Tensor> outputs, incoming;
  for (std::size_t i = 0; i < results.size() && i < gy.size(); ++i) {
    if (!gy[i].defined() || !results[i].defined() || !results[i].requires_grad()) continue;
    outputs.push_back(results[i]);
    incoming.push_back(gy[i]);
  }
  Grads gradients(inputs.size());
  if (outputs.empty()) return gradients;
  std::vector<Tensor> found =
      grad(outputs, wanted, {.create_graph = true, .allow_unused = true}, incoming);
  for (std::size_t i = 0; i < places.size(); ++i) gradients[places[i]] = std::move(found[i]);
  return gradients;
}

}  // namespace mezzo
