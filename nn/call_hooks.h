// Hooks on the calls of a module: functions that run before and after forward.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "../tensor/core/hook_list.h"
#include "../tensor/core/tensor.h"
#include "amp_hooks.h"

namespace mezzo::nn {

class Module;
struct ModuleState;

/** A function that runs before forward. `inputs` are the tensors of the arguments, also those
 * inside containers, in order; what the hook assigns to them is what forward gets. */
using ForwardPreHook = std::function<void(const Module& module, std::vector<Tensor>& inputs)>;

/** A function that runs after forward. `inputs` are the tensors that forward got, `outputs` those
 * of its result; what the hook assigns to them is what the caller gets. */
using ForwardHook = std::function<void(const Module& module, const std::vector<Tensor>& inputs,
                                       std::vector<Tensor>& outputs)>;

namespace detail {

/** The tensors of one argument or of a result: read by one pass of casts, written by the next. */
class MZ_API TensorsOfCall final : public CallWrapper {
 public:
  Tensor cast_in(const Tensor& x) const override;
  Tensor cast_out(const Tensor& y) const override { return cast_in(y); }

 private:
  friend class HookedCall;
  mutable std::vector<Tensor> tensors_;
  mutable std::size_t next_ = 0;
  bool replaces_ = false;
};

/** A call of a module with hooks. */
class MZ_API HookedCall {
 public:
  explicit HookedCall(const Module& module) : module_(module) {}
  /** Calls the hooks before forward with the tensors of the arguments; they are replaced from now
   *  on. */
  void before(std::span<TensorsOfCall> arguments);
  /** As above, with the tensors of the result. */
  void after(TensorsOfCall& result) const;

 private:
  const Module& module_;
  std::vector<Tensor> inputs_;
};

}  // namespace detail

}  // namespace mezzo::nn
