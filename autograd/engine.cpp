#include "engine.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "../tensor/core/dispatch.h"
#include "../tensor/device/capture.h"
#include "../tensor/ops/create.h"
#include "../tensor/ops/elementwise/pointwise.h"
#include "../tensor/ops/shape/copy.h"
#include "../tensor/ops/unit_gradient.h"
#include "../tensor/text/text.h"
#include "gradient_receiver.h"
#include "hooks.h"
#include "leaf_lock.h"
#include "op_node.h"
#include "view_write.h"

namespace mezzo {

namespace {

/** Returns whether no other tensor shares this one's memory, so that it may be overwritten. */
bool exclusively_owned(const Tensor& x) {
  return x.impl()->owners() == 1 && x.impl()->storage->owners() == 1;
}

void add_into(Tensor& sum, Tensor g) {
  if (!g.defined()) return;
  if (!sum.defined())
    sum = std::move(g);
  else if (!grad_enabled() && exclusively_owned(sum) && same_dense_layout(sum, sum))
    add_(sum, g);
  else if (!grad_enabled() && exclusively_owned(g) && same_dense_layout(g, g))
    sum = add_(g, sum);
  else
    sum = add(sum, g);
}

/** The state of a node or leaf: the number of contributions still to come, and the gradients
 *  accumulated so far. A sum of more than two 16-bit gradients is accumulated in f32 and rounded
 *  once. Unlike PyTorch, which rounds it after each addition: 4096 gradients of 1 in bf16 add up
 *  to 256 there. */
struct Task {
  Edge target;  // owns the node or leaf
  std::int64_t pending = 0;
  bool needed = true;
  Grads gathered;
  std::vector<std::optional<DType>> rounds_to;  // of gathered f32 sums; empty: none is one

  /** Adds a contribution, which still counts in `pending`. */
  void add_gradient(std::size_t output, Tensor g) {
    if (!g.defined()) return;
    prepare_sum(output, g.dtype());
    Tensor& sum = gathered[output];
    if (!sum.defined() || sum.dtype() == g.dtype())
      add_into(sum, std::move(g));
    else if (!grad_enabled() && exclusively_owned(sum) && same_dense_layout(sum, sum))
      add_(sum, g);
    else
      sum = add(sum, g);
  }
  /** Converts a 16-bit sum to f32 if more than one contribution is to come, or one of a wider
   *  dtype. */
  void prepare_sum(std::size_t output, DType dtype) {
    Tensor& sum = gathered[output];
    if (!sum.defined() || !is_low(sum.dtype()) || (pending < 2 && sum.dtype() == dtype)) return;
    rounds_to.resize(gathered.size());
    rounds_to[output] = sum.dtype();
    sum = sum.to(f32);
  }
  /** Rounds the f32 sums of a node to their dtype. */
  void round_sums() {
    for (std::size_t i = 0; i < rounds_to.size(); ++i)
      if (rounds_to[i]) gathered[i] = gathered[i].to(*rounds_to[i]);
  }
};

class Walk {
 public:
  Walk(std::span<const Tensor> outputs, Grads gradients, std::span<const Tensor> inputs,
       bool retain_graph, bool create_graph)
      : retain_graph_(retain_graph || create_graph),
        create_graph_(create_graph),
        accumulate_(inputs.empty()) {
    for (std::size_t i = 0; i < outputs.size(); ++i) roots_.push_back(gradient_edge(outputs[i]));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      captures_.push_back({gradient_edge(inputs[i]), {}});
    oldest_ = oldest_of_interest();
    discover();
    if (!accumulate_) mark_needed();
    const GradMode mode(create_graph);
    const CastScope no_casts(nullptr);
    if (accumulate_ && !received_.empty()) notify_receivers();
    for (std::size_t i = 0; i < roots_.size(); ++i) deliver(roots_[i], std::move(gradients[i]));
    run();
    commit();
  }

  std::vector<Tensor> captured() {
    std::vector<Tensor> out;
    for (Capture& c : captures_) out.push_back(std::move(c.grad));
    return out;
  }

 private:
  struct Capture {
    Edge edge;
    Tensor grad;
  };

  Task& task_of(const Edge& edge) {
    Task& task = tasks_[edge.key()];
    if (!task.target) task.target = edge;
    return task;
  }

  /** Returns the smallest sequence number of the requested nodes. Nodes below it are not on a path
   *  to an input. */
  std::uint64_t oldest_of_interest() const {
    std::uint64_t oldest = captures_.empty() ? 0 : std::numeric_limits<std::uint64_t>::max();
    for (const Capture& c : captures_)
      oldest = std::min(oldest, c.edge.node ? c.edge.node->sequence() : 0);
    return oldest;
  }

  bool of_interest(const Edge& edge) const {
    return edge && (!edge.node || edge.node->sequence() >= oldest_);
  }

  /** Finds all relevant nodes and leaves that are reachable from the roots, and counts the
   *  contributions each will receive. */
  void discover() {
    std::vector<Node*> stack;
    const auto visit = [&](const Edge& edge) {
      if (!of_interest(edge)) return;
      Task& task = task_of(edge);
      if (task.pending++ > 0) return;
      task.gathered.resize(edge.node ? edge.node->num_outputs : 1);
      if (edge.node)
        stack.push_back(edge.node.get());
      else if (const GradState& state = grad_state(edge.leaf); state.receiver)
        received_.push_back(&state);
    };
    for (const Edge& root : roots_) visit(root);
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      for (const Edge& edge : node->next()) visit(edge);
    }
  }

  /** Calls begin_backward() of each receiver with the leaves that this pass reaches, in the order
   *  of the receivers' numbers, which is the same in all processes. */
  void notify_receivers() {
    std::map<std::uint64_t, std::pair<GradientReceiver*, std::vector<std::size_t>>> reached;
    for (const GradState* state : received_) {
      auto& [receiver, indices] = reached[state->receiver->number()];
      receiver = state->receiver;
      indices.push_back(state->receiver_index);
    }
    for (const auto& [number, one] : reached) one.first->begin_backward(one.second);
  }

  /** Marks the nodes on a path to one of the inputs; grad() runs only these. */
  void mark_needed() {
    for (auto& [key, task] : tasks_) task.needed = false;
    for (const Capture& c : captures_)
      if (const auto it = tasks_.find(c.edge.key()); it != tasks_.end()) it->second.needed = true;
    // Operands were recorded before their results, so ascending order sees every successor first.
    std::vector<Node*> order = topological_order();
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      Task& task = tasks_[*it];
      for (const Edge& edge : (*it)->next())
        if (of_interest(edge) && tasks_[edge.key()].needed) task.needed = true;
    }
  }

  /** Returns nodes ordered so that each precedes those it sends gradients to. */
  std::vector<Node*> topological_order() {
    std::unordered_map<const void*, std::int64_t> waiting;
    for (const auto& [key, task] : tasks_) waiting[key] = task.pending;
    std::vector<Node*> order, ready;
    for (const Edge& root : roots_)
      if (root.node && of_interest(root) && --waiting[root.key()] == 0)
        ready.push_back(root.node.get());
    while (!ready.empty()) {
      Node* node = ready.back();
      ready.pop_back();
      order.push_back(node);
      for (const Edge& edge : node->next())
        if (of_interest(edge) && --waiting[edge.key()] == 0 && edge.node)
          ready.push_back(edge.node.get());
    }
    return order;
  }

  void deliver(const Edge& edge, Tensor g) {
    if (!of_interest(edge)) return;
    Task& task = tasks_[edge.key()];
    if (is_added_by_node(edge, task, g))
      task.gathered.push_back(std::move(g));
    else
      task.add_gradient(edge.output, std::move(g));
    if (--task.pending > 0) return;
    if (edge.node) {
      task.round_sums();
      ready_.push_back(&task);
      std::push_heap(ready_.begin(), ready_.end(), earlier);
    } else {
      finish_leaf(task);
    }
  }

  /** Returns true if the node adds g, the last gradient of its first result, to the others itself.
   *  It then follows the gradients of the results. */
  static bool is_added_by_node(const Edge& edge, const Task& task, const Tensor& g) {
    if (task.pending != 1 || edge.output != 0 || grad_enabled()) return false;
    const auto* const op = dynamic_cast<const OpNode*>(edge.node.get());
    return op && op->adds_terms(task.gathered[0], g);
  }

  static bool earlier(const Task* a, const Task* b) {
    return a->target.node->sequence() < b->target.node->sequence();
  }

  void run() {
    while (!ready_.empty()) {
      std::pop_heap(ready_.begin(), ready_.end(), earlier);
      Task& task = *ready_.back();
      ready_.pop_back();
      run_node(*task.target.node, std::move(task.gathered), task.needed);
    }
  }

  void run_node(Node& node, Grads gy, bool needed) {
    if (gy.size() > node.num_outputs && (node.has_hooks() || is_captured(node))) {
      add_into(gy[0], std::move(gy.back()));
      gy.pop_back();
    }
    node.run_hooks(gy);
    capture(&node, gy);
    Grads gx(node.next().size());
    if (needed) {
      bool feeds = accumulate_;
      for (const Edge& edge : node.next())
        feeds = feeds || (of_interest(edge) && tasks_[edge.key()].needed);
      if (feeds && accumulate_ && !retain_graph_) pass_on_conversions(node);
      if (feeds && !added_in_place(node, gy)) {
        append_rest(node, gy);
        gx = node.apply(std::move(gy));
      }
      if (feeds && !retain_graph_) node.release_saved();
    }
    for (std::size_t i = 0; i < gx.size(); ++i) deliver(node.next()[i], std::move(gx[i]));
  }

  /** Lets a node that computes one gradient add it to the sum of that operand, so that gradients of
   *  parts of one tensor share a buffer. Returns whether it did. */
  bool added_in_place(Node& node, const Grads& gy) {
    if (grad_enabled() || !node.adds_gradient()) return false;
    const auto wanted = [&](const Edge& e) { return of_interest(e); };
    const auto at = std::find_if(node.next().begin(), node.next().end(), wanted);
    if (at == node.next().end() || std::any_of(at + 1, node.next().end(), wanted)) return false;
    const Edge& edge = *at;
    Task& task = tasks_[edge.key()];
    const Tensor& sum = task.gathered[edge.output];
    if (!sum.defined() || !gy[0].defined()) return false;
    task.prepare_sum(edge.output, gy[0].dtype());
    return exclusively_owned(sum) && same_dense_layout(sum, sum) && node.add_gradient(gy, sum);
  }

  /** Moves the sum of the other gradients of the first operand to the end of `gy` if the node adds
   *  its own to it. */
  void append_rest(const Node& node, Grads& gy) {
    const auto* const op = dynamic_cast<const OpNode*>(&node);
    if (grad_enabled() || !op || !gy[0].defined() || !of_interest(op->next()[0])) return;
    const Edge& edge = op->next()[0];
    Task& task = tasks_[edge.key()];
    Tensor& sum = task.gathered[edge.output];
    if (task.pending == 1 && op->adds_to(sum)) gy.push_back(std::exchange(sum, {}));
  }

  /** If the next node, or the one after a change of shape, converts its gradient to a narrower
   *  dtype, rounds the gradient to that dtype at once, provided no hook or trace reads it in
   *  between. Not used for graphs that are kept, because several threads may run their nodes. */
  void pass_on_conversions(Node& node) {
    if (needs_single_ops()) return;
    for (std::size_t i = 0; i < node.next().size(); ++i)
      if (const std::optional<DType> dtype = converted_at(node.next()[i]))
        node.prefer_gradient(i, *dtype);
  }

  /** Returns the floating dtype that the only gradient for an edge is converted to next. */
  std::optional<DType> converted_at(const Edge& edge) {
    if (!edge.node || edge.node->has_hooks()) return std::nullopt;
    const Task& task = tasks_[edge.key()];
    if (task.pending != 1 || task.gathered[edge.output].defined()) return std::nullopt;
    if (const std::optional<DType> dtype = edge.node->converts_to())
      return is_floating(*dtype) ? dtype : std::nullopt;
    const auto* const op = dynamic_cast<const OpNode*>(edge.node.get());
    return op && op->only_reshapes() ? converted_at(op->next()[0]) : std::nullopt;
  }

  bool is_captured(const Node& node) const {
    return std::any_of(captures_.begin(), captures_.end(),
                       [&](const Capture& c) { return c.edge.key() == &node; });
  }

  void capture(const void* key, const Grads& gy) {
    for (Capture& c : captures_)
      if (c.edge.key() == key) c.grad = gy[c.edge.output];
  }

  void finish_leaf(Task& task) {
    const Tensor& leaf = task.target.leaf;
    Tensor g = std::move(task.gathered[0]);
    if (!g.defined()) return;
    // The leaf may have been converted since the forward pass.
    if (g.dtype() != leaf.dtype()) g = g.to(leaf.dtype());
    (void)g.raw_data();  // converts it now if it is late: the program may write to its source
    GradState& state = grad_state(leaf);
    state.hooks.for_each([&](const GradHook& hook) {
      if (Tensor replaced = hook(g); replaced.defined()) g = replaced;
    });
    if (!accumulate_) {
      task.gathered[0] = g;
      return capture(leaf.impl(), task.gathered);
    }
    const auto lock = locked(state);
    if (state.receiver && state.receiver->receive(state.receiver_index, g)) return;
    Finished finished = prepared(leaf, state, std::move(g));
    if (state.accumulated_hooks.empty()) {
      finished_.push_back(std::move(finished));
      return;
    }
    accumulate(finished, state);
    run_post_accumulate_grad_hooks(leaf);
  }

  /** A leaf and the gradient to add to it. */
  struct Finished {
    Tensor leaf, gradient;
    /** With create_graph, or if the former gradient must stay as it is: the leaf's gradient at
     *  prepared(), and its sum with `gradient`. */
    Tensor former = {}, sum = {};
  };

  /** Allocates the memory that accumulate() needs. The first gradient gets the dense layout of its
   *  leaf, because multi-tensor updates read both as flat arrays. */
  Finished prepared(const Tensor& leaf, const GradState& state, Tensor g) {
    if (!state.grad.defined()) {
      const bool fits =
          same_dense_layout(g, leaf) || (!same_dense_layout(leaf, leaf) && g.is_contiguous());
      const bool may_keep = exclusively_owned(g) && (create_graph_ || fits);
      return {leaf, may_keep ? std::move(g) : apply_with<op::Clone>({leaf.memory_format()}, g)};
    }
    if (create_graph_ || keeps_former(state)) {
      if (!create_graph_ && mezzo::Capture::current())
        fail<StateError>("backward",
                         {.what = "a captured step adds to a gradient that was unscaled before",
                          .got = str("the gradient of ", leaf),
                          .hint = "call zero_grad() inside the captured step"});
      return {leaf, g, state.grad, add(state.grad, g)};
    }
    return {leaf, same_dense_layout(g, state.grad) ? std::move(g)
                                                   : g.contiguous(state.grad.memory_format())};
  }

  /** Returns true if the leaf's gradient was unscaled, so that a scaled one must be added in other
   *  memory: unscaling then leaves out the former part. */
  static bool keeps_former(const GradState& state) {
    return is_unscaled(state.mark.scale) && state.mark.part.is_same(state.grad);
  }

  /** Adds the gradient to the leaf. Allocates only where the leaf's gradient is not dense or was
   *  replaced after prepared(). */
  void accumulate(const Finished& finished, GradState& state) {
    const bool is_first = !state.grad.defined();
    if (is_first)
      state.grad = finished.gradient;
    else if (finished.sum.defined() && state.grad.is_same(finished.former))
      state.grad = finished.sum;
    else if (create_graph_)
      state.grad = add(state.grad, finished.gradient);
    else
      add_(state.grad, finished.gradient);
    if (is_first || finished.sum.defined())
      state.grad.impl()->storage->set_category(MemoryCategory::gradients);
    if (state.mark.scale == GradientScale::zero || state.mark.scale == GradientScale::in_master)
      state.mark = {};
  }

  /** Adds all gradients to their leaves at the end, so that a backward pass that runs out of memory
   *  changes none of them. */
  void commit() {
    for (const Finished& finished : finished_) {
      GradState& state = grad_state(finished.leaf);
      const auto lock = locked(state);
      accumulate(finished, state);
    }
  }

  const bool retain_graph_, create_graph_, accumulate_;
  std::vector<Edge> roots_;
  std::vector<Capture> captures_;
  std::uint64_t oldest_ = 0;
  std::unordered_map<const void*, Task> tasks_;
  std::vector<Task*> ready_;
  std::vector<Finished> finished_;
  std::vector<const GradState*> received_;  // the reached leaves that have a receiver
};

Tensor root_gradient(const Tensor& output, const Tensor& given, const char* op, bool shares) {
  if (!output.defined() || !output.requires_grad())
    fail<StateError>(op, {.what = "the tensor requires no gradient",
                          .got = str(output),
                          .expected = "the result of recorded operations",
                          .hint = "set requires_grad_() on a leaf it depends on"});
  if (given.defined()) {
    if (!(given.shape() == output.shape()))
      fail<ShapeError>(op, {.what = "the incoming gradient does not fit",
                            .got = str(given, " for ", output),
                            .expected = "the shape of the tensor"});
    if (!(given.device() == output.device()))
      fail<DeviceError>(op, {.what = "the incoming gradient is on another device",
                             .got = str(given, " for ", output),
                             .expected = "the device of the tensor",
                             .hint = "use g.to(device)"});
    return given.to(output.dtype());
  }
  if (output.numel() != 1)
    fail<ShapeError>(op, {.what = "only a tensor of one element has an implicit gradient",
                          .got = str(output),
                          .hint = "pass the incoming gradient, or reduce with sum() or mean()"});
  if (shares) return unit_gradient(output.shape(), output.dtype(), output.device());
  return full(output.shape(), 1, {.dtype = output.dtype(), .device = output.device()});
}

/** Returns the incoming gradients of the outputs. With `shares` they may be shared tensors, which
 *  is allowed where only leaves receive them, because leaves store copies. */
Grads root_gradients(std::span<const Tensor> outputs, std::span<const Tensor> gradients,
                     const char* op, bool shares) {
  if (!gradients.empty() && gradients.size() != outputs.size())
    fail<ValueError>(op, {.what = "the numbers of gradients and outputs differ",
                          .got = str(gradients.size(), " for ", outputs.size())});
  const CastScope no_casts(nullptr);
  Grads roots;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    roots.push_back(
        root_gradient(outputs[i], gradients.empty() ? Tensor{} : gradients[i], op, shares));
    refresh_view_edge(outputs[i]);
  }
  return roots;
}

}  // namespace

void backward(TensorList outputs, TensorList gradients, bool retain_graph, bool create_graph) {
  const TraceRange range("backward");
  Grads roots = root_gradients(outputs, gradients, "backward", !create_graph);
  notify_backward(outputs[0]);
  BackwardScope scope;
  std::exception_ptr failure;
  try {
    Walk(outputs, std::move(roots), {}, retain_graph, create_graph);
  } catch (...) {
    failure = std::current_exception();
  }
  scope.finish(failure);
}

Tensor detail::grad_of_one(const Tensor& output, const Tensor& input, const GradOptions& options,
                           const Tensor& gradient) {
  return grad(TensorList(output), TensorList(input), options,
              gradient.defined() ? TensorList(gradient) : TensorList())[0];
}

std::vector<Tensor> grad(TensorList outputs, TensorList inputs, const GradOptions& options,
                         TensorList gradients) {
  const TraceRange range("backward");
  Grads roots = root_gradients(outputs, gradients, "grad", false);
  for (const Tensor& x : inputs) {
    if (!x.defined() || !x.requires_grad())
      fail<StateError>("grad", {.what = "an input requires no gradient",
                                .got = str(x),
                                .hint = "set requires_grad_() before the forward pass"});
    refresh_view_edge(x);
  }
  if (inputs.empty()) return {};
  std::vector<Tensor> result =
      Walk(outputs, std::move(roots), inputs, options.retain_graph, options.create_graph)
          .captured();
  for (std::size_t i = 0; i < result.size(); ++i)
    if (!result[i].defined() && !options.allow_unused)
      fail<StateError>("grad", {.what = "an input does not take part in computing the outputs",
                                .got = str("input ", i, ", ", inputs[i]),
                                .hint = "pass allow_unused = true"});
  return result;
}

}  // namespace mezzo
