// User-defined differentiable functions: a forward and a backward in plain C++, called like any op.
// Sees: node.h, grad_mode.h.
// Read next: custom_op.h (the other way: an op struct with its own precision tag).
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "grad_mode.h"
#include "node.h"

namespace mezzo {

/** What a user's forward leaves for its backward. */
class MZ_API FunctionContext {
 public:
  /** Keeps tensors for the backward; they are checked for in-place changes when it runs. Call it in forward. */
  void save_for_backward(std::vector<Tensor> tensors);
  /** The saved tensors, in order. Errors: StateError when the graph was freed or one was modified in place. */
  std::vector<Tensor> saved() const;
  /** Whether the gradient of the i-th Tensor argument is wanted. */
  bool needs_input_grad(std::size_t i) const { return wanted[i]; }

  std::string name;
  std::vector<bool> wanted;
  std::shared_ptr<const void> attachment;  // whatever else forward leaves for backward

 private:
  friend class FunctionNodeBase;
  struct Kept {
    Tensor tensor;
    std::uint32_t version = 0;
    int output = -1;  // which result this is, if one
  };
  std::vector<Kept> kept_;
  Node* node_ = nullptr;
  bool freed_ = false;
};

/** The parts of a user function's node that do not depend on its type. */
class MZ_API FunctionNodeBase : public Node {
 public:
  FunctionNodeBase(std::string name, const std::vector<Tensor>& operands);
  void release_saved() override;
  std::string name() const override { return context.name; }
  /** Hangs the results into the graph. */
  static void attach(const Ref<FunctionNodeBase>& node, std::vector<Tensor>& results);

  FunctionContext context;

 protected:
  Grads checked(Grads gradients) const;

 private:
  std::vector<TensorMeta> metas_;
};

namespace detail {

template <class F> class FunctionNode final : public FunctionNodeBase {
 public:
  using FunctionNodeBase::FunctionNodeBase;
  Grads apply(Grads gy) override { return checked(F::backward(context, gy)); }
};

template <class T> void collect_tensor(std::vector<Tensor>& tensors, const T& argument) {
  if constexpr (std::is_same_v<T, Tensor>)
    tensors.push_back(argument);
  else if constexpr (std::is_same_v<T, std::vector<Tensor>>)
    tensors.insert(tensors.end(), argument.begin(), argument.end());
}

}  // namespace detail

/** Calls F::forward(FunctionContext&, args...) unrecorded and makes its results differentiable through F::backward(FunctionContext&, grads),
 *  which returns one gradient per Tensor argument in order (undefined for none). forward returns a Tensor or a vector of Tensors. With
 *  create_graph, backward's own operations are recorded, so it is as often differentiable as they are.
 *  Errors: what forward throws; ValueError when backward returns another number of gradients, ShapeError or
 *  DeviceError when one does not fit. */
template <class F, class... Args> auto custom_function(const Args&... args) {
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
