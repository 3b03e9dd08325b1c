#include "node.h"

#include <atomic>
#include <utility>
#include <vector>

#include "../tensor/text/text.h"
#include "gradient_receiver.h"
#include "leaf_lock.h"

namespace mezzo {

namespace {

/** Returns the sequence number of this thread's next node. */
std::uint64_t& next_sequence() {
  static thread_local std::uint64_t next = 0;
  return next;
}

}  // namespace

void destroy(Node* node) {
  // Deleting a node releases its edges and saved tensors, which may destroy further nodes. Those
  // are queued instead of destroyed recursively. The queue is linked through the nodes, because it
  // must not allocate memory.
  static thread_local Node* queue = nullptr;
  static thread_local bool draining = false;
  node->next_to_destroy_ = std::exchange(queue, node);
  if (draining) return;
  draining = true;
  while (queue) {
    Node* last = queue;
    queue = last->next_to_destroy_;
    delete last;
  }
  draining = false;
}

Node::Node() : sequence_(next_sequence()++) {}

void Node::follow(Edge edge) {
  if (edge.node && edge.node->sequence_ >= sequence_) {  // another thread made it
    sequence_ = edge.node->sequence_ + 1;
    next_sequence() = sequence_ + 1;
  }
  next_.push_back(std::move(edge));
}

bool Node::has_hooks() const { return !hooks_.empty(); }

HookHandle Node::add_hook(std::uint32_t output, GradHook hook) {
  return hooks_.add({output, std::move(hook)});
}

void Node::run_hooks(Grads& gy) const {
  hooks_.for_each([&](const OutputHook& h) {
    Tensor& g = gy[h.output];
    if (!g.defined()) return;
    // A tensor of one element may be the shared gradient 1 or a loss scale; hooks get a copy.
    if (g.numel() == 1 && g.impl()->storage->owners() > 1) g = g.clone();
    if (Tensor replaced = h.hook(g); replaced.defined()) g = replaced;
  });
}

GradState::GradState() = default;
GradState::~GradState() = default;

GradState* find_grad_state(const Tensor& x) {
  (void)x.requires_grad();  // throws for an undefined tensor
  return static_cast<GradState*>(x.impl()->autograd.get());
}

GradState& grad_state(const Tensor& x) {
  if (!find_grad_state(x)) x.impl()->autograd.reset(new GradState);
  return *find_grad_state(x);
}

Edge gradient_edge(const Tensor& x) {
  if (!x.defined() || !x.requires_grad()) return {};
  GradState& state = grad_state(x);
  if (state.grad_fn) return {state.grad_fn, state.output, {}};
  return {nullptr, 0, x};
}

void set_grad_fn(const Tensor& x, Ref<Node> node, std::uint32_t output) {
  GradState& state = grad_state(x);
  state.grad_fn = std::move(node);
  state.output = output;
  x.impl()->requires_grad = true;
}

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
