#include "node.h"

#include <utility>
#include <vector>

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

}  // namespace mezzo
