// The graph: nodes, which compute gradients of operands from gradients of results, and the edges
// between them.
// See also: op_node.h (the nodes of ops), engine.h (passes over the graph).
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../tensor/core/hook_list.h"
#include "../tensor/core/op.h"
#include "../tensor/core/pointers.h"
#include "gradient_mark.h"

namespace mezzo {

class Node;

/** Destroys nodes one after another and not recursively, so that a chain of any length is released
 *  with constant stack. */
MZ_API void destroy(Node* node);
template <std::derived_from<Node> T> void destroy(T* node) { destroy(static_cast<Node*>(node)); }

/** The destination of a gradient: result `output` of a node, or a leaf; none when both are
 *  absent. */
struct Edge {
  Ref<Node> node;
  std::uint32_t output = 0;
  Tensor leaf;

  explicit operator bool() const { return node || leaf.defined(); }
  /** Returns the engine's key for the destination. */
  const void* key() const { return node ? static_cast<const void*>(node.get()) : leaf.impl(); }
};

/** A function that is called with a gradient. It may return a replacement, or an undefined tensor
 *  to keep the gradient. */
using GradHook = std::function<Tensor(const Tensor& grad)>;
/** A function that is called with a leaf after its gradient was accumulated. */
using LeafHook = std::function<void(const Tensor& leaf)>;

/** A recorded operation. */
class MZ_API Node : public RefCounted {
 public:
  Node();
  virtual ~Node() = default;

  /** Returns the gradients of the operands, one per edge in next(), undefined where there is none.
   *  `gy` has one entry per result, undefined where the result was not used. */
  virtual Grads apply(Grads gy) = 0;
  /** Frees the tensors that were saved for the backward pass. */
  virtual void release_saved() {}
  /** Returns the name of the operation, for errors and traces. */
  virtual std::string name() const = 0;
  /** Returns a dtype if the node has one result and only converts its gradient to that dtype. */
  virtual std::optional<DType> converts_to() const { return std::nullopt; }
  /** Lets the next apply() return the gradient of an operand in this dtype instead of the
   *  operand's. */
  virtual void prefer_gradient(std::size_t /*operand*/, DType) {}
  /** Returns true if add_gradient() may be cheaper than apply(). */
  virtual bool adds_gradient() const { return false; }
  /** Adds the gradient of the one operand to `sum`, which has its dtype or f32, if that is cheaper
   *  than computing it separately; otherwise returns false and does nothing. */
  virtual bool add_gradient(const Grads& /*gy*/, const Tensor& /*sum*/) { return false; }

  /** Returns the edges to the operands. */
  const std::vector<Edge>& next() const { return next_; }
  /** Returns a number greater than those of all nodes that this node sends gradients to, and of all
   *  nodes that its thread made before. The engine runs greater numbers first, which reverses the
   *  order of the program. */
  std::uint64_t sequence() const { return sequence_; }
  /** Returns whether a hook is registered on a result. */
  bool has_hooks() const;
  /** Registers a hook on the gradient of result `output`. */
  HookHandle add_hook(std::uint32_t output, GradHook hook);
  /** Passes gradients through the hooks in order of registration. */
  void run_hooks(Grads& gy) const;

  std::uint32_t num_outputs = 1;  // number of results

 protected:
  /** Appends the edge of the next operand. */
  void follow(Edge edge);
  void reserve_next(std::size_t operands) { next_.reserve(operands); }

 private:
  struct OutputHook {
    std::uint32_t output;
    GradHook hook;
  };
  MZ_API friend void destroy(Node* node);

  std::uint64_t sequence_;
  Node* next_to_destroy_ = nullptr;  // links nodes in the queue of destroy()
  std::vector<Edge> next_;
  HookList<OutputHook> hooks_;
};

class GradientReceiver;
struct LeafLock;

/** A tensor's position in the graph, and its gradient. */
struct GradState final : AutogradState {
  GradState();
  ~GradState() override;

  Ref<Node> grad_fn;                  // absent for leaves
  std::uint32_t output = 0;           // index of the result of grad_fn
  Tensor grad;                        // of a leaf
  GradientMark mark;                  // of grad
  const void* session = nullptr;      // of mixed precision: its optimizers hold this leaf
  std::uint32_t session_holders = 0;  // number of those
  Owner<LeafLock> lock;               // of a leaf's grad
  /** The gradient of a non-leaf after retain_grad(); shared with the hook that sets it. */
  Shared<Tensor> retained;
  HookList<GradHook> hooks;              // of leaves; hooks of other tensors are in the node
  HookList<LeafHook> accumulated_hooks;  // run after the leaf's gradient was accumulated
  GradientReceiver* receiver = nullptr;  // takes the gradients of this leaf; null: the engine adds
                                         // them
  std::size_t receiver_index = 0;        // of this leaf, for the receiver
  /** The base of a recorded view. An in-place write through a view changes the graph of the base
   *  and of all its views. */
  Tensor view_base;
  std::uint32_t view_version = 0;  // version of the storage when grad_fn was made
};

/** Returns the tensor's autograd state, created on first use. */
MZ_API GradState& grad_state(const Tensor& x);
/** Returns the tensor's autograd state, or null where there is none. */
MZ_API GradState* find_grad_state(const Tensor& x);
/** Returns the destination of the gradient of x. */
MZ_API Edge gradient_edge(const Tensor& x);
/** Makes x result `output` of `node`. */
MZ_API void set_grad_fn(const Tensor& x, Ref<Node> node, std::uint32_t output);

}  // namespace mezzo
