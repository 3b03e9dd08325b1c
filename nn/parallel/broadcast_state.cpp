#include "broadcast_state.h"

#include <unordered_set>

namespace mezzo::nn {

void broadcast_state(const Module& model, const comm::Communicator& ranks) {
  const StateDict state = model.state_dict();
  std::unordered_set<const TensorImpl*> sent;
  for (const auto& [name, tensor] : state)
    if (sent.insert(tensor.impl()).second) ranks.broadcast(flat(tensor), 0, {.label = name}).wait();
  if (ranks.rank() != 0) model.load_state_dict(state);
}

void require_same_lines(const comm::Communicator& ranks, std::string_view kind, std::string lines) {
  const auto shared = std::make_shared<const std::string>(std::move(lines));
  ranks.begin_round({.kind = kind, .signature = comm::signature_of(*shared), .details = shared})
      .wait();
  ranks.end_round();
}

}  // namespace mezzo::nn
