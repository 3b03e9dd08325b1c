// The graph: nodes that know how to turn gradients of their results into gradients of their operands, and the edges between them.
// Sees: tensor.
// Read next: op_node.h (the node every op records), engine.h (who walks the graph).
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../tensor/op.h"

namespace mezzo {

class Node;

/** Nodes are destroyed one after another, never recursively: a chain of any length is released in constant stack. */
MZ_API void destroy(Node* node);
template <std::derived_from<Node> T> void destroy(T* node) { destroy(static_cast<Node*>(node)); }

/** Where a gradient goes: to result `output` of a node, or into a leaf; nowhere when both are absent. */
struct Edge {
  Ref<Node> node;
  std::uint32_t output = 0;
  Tensor leaf;

  explicit operator bool() const { return node || leaf.defined(); }
  /** What the engine files the edge's target under. */
  const void* key() const { return node ? static_cast<const void*>(node.get()) : leaf.impl(); }
};

/** Sees, and may replace, a gradient on its way; returning an undefined tensor keeps it. */
using GradHook = std::function<Tensor(const Tensor& grad)>;

class MZ_API Node : public RefCounted {
 public:
  Node();
  virtual ~Node() = default;

  /** Gradients of the operands, one per edge in `next`, undefined where none flows. `gy` has one entry per result, undefined where nothing
   *  used that result. */
  virtual Grads apply(Grads gy) = 0;
  /** Drops what was saved for the backward pass. */
  virtual void release_saved() {}
  virtual std::string name() const = 0;
  /** For a node that does nothing with the gradient of its one result but convert it: to what. */
  virtual std::optional<DType> converts_to() const { return std::nullopt; }
  /** In the next apply() the gradient of that operand may have this dtype instead of the operand's. */
  virtual void prefer_gradient(std::size_t /*operand*/, DType) {}
  /** Adds the gradient of the one operand to `sum`, where that is less work than making it first.
   *  Where it is not, returns false and does nothing. */
  virtual bool add_gradient(const Grads& /*gy*/, const Tensor& /*sum*/) { return false; }

  const std::vector<Edge>& next() const { return next_; }
  /** Greater than that of every node it sends gradients to, and of every node its thread made before: the engine prefers greater ones, which makes
   *  its order that of the program, reversed. */
  std::uint64_t sequence() const { return sequence_; }
  bool has_hooks() const { return !hooks_.empty(); }
  void add_hook(std::uint32_t output, GradHook hook) { hooks_.push_back({output, std::move(hook)}); }
  /** Passes gradients through the hooks in order of registration. */
  void run_hooks(Grads& gy) const;

  std::uint32_t num_outputs = 1;

 protected:
  /** Adds where the gradient of the next operand goes. */
  void follow(Edge edge);
  void reserve_next(std::size_t operands) { next_.reserve(operands); }

 private:
  struct OutputHook {
    std::uint32_t output;
    GradHook hook;
  };
  MZ_API friend void destroy(Node* node);

  std::uint64_t sequence_;
  Node* next_ended_ = nullptr;  // among those that wait to be destroyed
  std::vector<Edge> next_;
  std::vector<OutputHook> hooks_;
};

struct LeafLock;

/** A tensor's place in the graph, and its gradient. */
struct GradState final : AutogradState {
  GradState();
  ~GradState() override;

  Ref<Node> grad_fn;  // absent for leaves
  std::uint32_t output = 0;
  Tensor grad;
  std::unique_ptr<LeafLock> lock;  // of a leaf's grad
  std::shared_ptr<Tensor>
      retained;  // the gradient of a non-leaf that asked to keep it; shared with the hook that fills it
  std::vector<GradHook> hooks;  // leaves only; others keep theirs at the node
  std::vector<std::function<void(const Tensor&)>>
      accumulated_hooks;  // after the leaf's gradient was accumulated
  // A recorded view remembers its base: an in-place write through any of them must reach the graph of all.
  Tensor view_base;
  std::uint32_t view_version = 0;  // of the storage, when grad_fn was made
};

/** The tensor's autograd state, created on first use. */
MZ_API GradState& grad_state(const Tensor& x);
/** The same, or null where there is none yet. */
MZ_API GradState* find_grad_state(const Tensor& x);
/** Where the gradient of x goes. */
MZ_API Edge gradient_edge(const Tensor& x);
/** Makes x result `output` of `node`. */
MZ_API void set_grad_fn(const Tensor& x, Ref<Node> node, std::uint32_t output);

}  // namespace mezzo
