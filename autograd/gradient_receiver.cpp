#include "gradient_receiver.h"

#include <atomic>

#include "../tensor/text/text.h"

namespace mezzo {

namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> count{0};
  return count++;
}

}  // namespace

GradientReceiver::GradientReceiver() : number_(next_number()) {}

void require_reduced(const Tensor& leaf, std::string_view op, std::string_view hint) {
  const GradState* state = find_grad_state(leaf);
  if (state && state->receiver && state->receiver->has_unreduced(state->receiver_index))
    fail<StateError>(op,
                     {.what = str("the gradient of ", state->receiver->name(state->receiver_index),
                                  " was not reduced over the processes"),
                      .hint = std::string(hint)});
}

void drop_local_gradient(const Tensor& leaf) {
  const GradState* state = find_grad_state(leaf);
  if (state && state->receiver) state->receiver->drop_local(state->receiver_index);
}

}  // namespace mezzo
