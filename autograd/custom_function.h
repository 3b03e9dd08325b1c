// User-defined differentiable functions: a forward and a backward in plain C++, called like an op.
// See also: ../tensor/ops/custom_op.h (an op struct with its own precision tag).
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../tensor/core/dispatch.h"
#include "../tensor/core/pointers.h"
#include "node.h"

namespace mezzo {

/** What forward saves for backward. */
class MZ_API FunctionContext {
 public:
  /** Saves tensors for backward. Call it in forward. backward throws if one of them was modified in
   *  place since. */
  void save_for_backward(std::vector<Tensor> tensors);
  /** Returns the saved tensors in order. Errors: StateError when the graph was freed or a saved
   *  tensor was modified in place. */
  std::vector<Tensor> saved() const;
  /** Returns whether the i-th Tensor argument needs a gradient. */
  bool needs_input_grad(std::size_t i) const { return wanted[i]; }

  std::string name;          // of the function, for errors and traces
  std::vector<bool> wanted;  // per Tensor argument: whether it needs a gradient
  /** Anything else that backward needs; freed with the saved tensors. */
  std::shared_ptr<const void> attachment;
  std::shared_ptr<const void> casts;  // internal: what mixed precision needs in backward

 private:
  friend class FunctionNodeBase;
  struct Kept {
    Tensor tensor;
    std::uint32_t version = 0;
    int output = -1;  // index of the result that this is, or -1
  };
  std::vector<Kept> kept_;
  Node* node_ = nullptr;
  bool freed_ = false, attachment_freed_ = false;

  [[noreturn]] void refuse_freed() const;
};

/** The part of a user function's node that does not depend on its type. */
class MZ_API FunctionNodeBase : public Node {
 public:
  /** Makes the node of a call with these Tensor arguments. Their edges are recorded only while
   *  gradients are. */
  FunctionNodeBase(std::string name, const std::vector<Tensor>& operands);
  ~FunctionNodeBase() override;
  /** Frees what save_for_backward saved and the attachment. After that FunctionContext::saved
   *  throws StateError, and so does a backward pass if there was an attachment. */
  void release_saved() override;
  /** Returns the name of the function. */
  std::string name() const override { return context.name; }
  /** Makes the results outputs of `node` in the graph. */
  static void attach(const Ref<FunctionNodeBase>& node, std::vector<Tensor>& results);

  FunctionContext context;  // passed to forward and to backward

 protected:
  /** Throws StateError if an attachment was freed. */
  void require_attachment() const;
  /** Returns the gradients in the dtypes of the operands. Errors: ValueError for a wrong number of
   *  gradients, ShapeError or DeviceError for one that does not fit its operand. */
  Grads checked(Grads gradients) const;

 private:
  struct Operands;
  Owner<Operands> operands_;  // shapes, dtypes and devices
};

namespace detail {

template <class F, class... Args>
concept ForwardTakes =
    requires(FunctionContext& context, const Args&... args) { F::forward(context, args...); };

template <class F>
concept HasBackward = requires(FunctionContext& context, const Grads& grads) {
  { F::backward(context, grads) } -> std::convertible_to<Grads>;
};

template <class F>
concept HasName = requires { std::string(F::name); };

template <class F> class FunctionNode final : public FunctionNodeBase {
 public:
  using FunctionNodeBase::FunctionNodeBase;
  Grads apply(Grads gy) override {
    require_attachment();
    return checked(F::backward(context, gy));
  }
};

template <class T> void collect_tensor(std::vector<Tensor>& tensors, const T& argument) {
  if constexpr (std::is_same_v<T, Tensor>)
    tensors.push_back(argument);
  else if constexpr (std::is_same_v<T, std::vector<Tensor>>)
    tensors.insert(tensors.end(), argument.begin(), argument.end());
}

}  // namespace detail

/** Calls F::forward(FunctionContext&, args...) without recording it, and makes its results
 *  differentiable through F::backward(FunctionContext&, grads). forward returns a Tensor or a
 *  vector of Tensors. backward returns one gradient per Tensor argument in order, undefined for
 *  none. With create_graph, the ops in backward are recorded, so the function is as often
 *  differentiable as they are.
 *  Errors: what forward throws; ValueError when backward returns a wrong number of gradients,
 *  ShapeError or DeviceError when one does not fit. */
template <class F, class... Args> auto custom_function(const Args&... args) {
  static_assert(detail::ForwardTakes<F, Args...>,
                "the function needs `static Tensor forward(FunctionContext&, arguments...)` that "
                "takes these arguments");
  static_assert(detail::HasBackward<F>,
                "the function needs `static Grads backward(FunctionContext&, const Grads&)`");
  static_assert(detail::HasName<F>,
                "the function needs `static constexpr const char* name`, which errors and traces "
                "show");
  using Result = std::decay_t<decltype(F::forward(std::declval<FunctionContext&>(), args...))>;
  std::vector<Tensor> operands;
  (detail::collect_tensor(operands, args), ...);
  Ref<FunctionNodeBase> node(new detail::FunctionNode<F>(F::name, operands));
  Result result = [&] {
    const NoGrad no_grad;
    return F::forward(node->context, args...);
  }();
  if constexpr (std::is_same_v<Result, Tensor>) {
    std::vector<Tensor> results{std::move(result)};
    FunctionNodeBase::attach(node, results);
    return std::move(results[0]);
  } else {
    FunctionNodeBase::attach(node, result);
    return result;
  }
}

}  // namespace mezzo
