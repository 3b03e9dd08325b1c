// amp::custom_function: custom_function under mixed precision, in the role of PyTorch's custom_fwd
// and custom_bwd.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "../../autograd/custom_function.h"
#include "../../tensor/core/pointers.h"
#include "functions.h"

namespace mezzo::amp {

/** Options of amp::custom_function. */
struct CustomFunctionOptions {
  /** Where casts are active: cast the arguments to it, and run forward and backward with casts off.
   *  Empty: run both in the state of the call. */
  std::optional<DType> cast_inputs = {};
};

/** The casting state of a forward pass, recorded for its backward pass. */
struct MZ_API RecordedCasts {
  bool active = false;        // ops cast their inputs
  DType low = f16;            // the 16-bit type of matrix products and convolutions
  bool cache_enabled = true;  // casts of weights are cached
  bool from_guard = true;     // set by a guard, which refuses banned ops whatever their inputs
  /** The tags of policy_override; null: none. */
  std::shared_ptr<const struct OverriddenTags> overrides = {};
  /** Returns the current state of the calling thread. */
  static RecordedCasts here();
};

namespace detail {

/** Restores a recorded casting state until the end of the scope, also inside a backward pass. */
class MZ_API RecordedScope {
 public:
  explicit RecordedScope(const RecordedCasts& recorded);
  ~RecordedScope();
  RecordedScope(const RecordedScope&) = delete;
  RecordedScope& operator=(const RecordedScope&) = delete;

 private:
  struct State;
  Owner<State> state_;
};

/** Installs the hook by which recomputation (autograd/recompute.h) runs under the casting state
 *  of the original computation. */
void record_casts_for_recompute();

/** Casts x to `dtype` if it is eligible, as a recorded op and without a cache. */
struct MZ_API CastTo {
  DType dtype;
  Tensor operator()(const Tensor& x) const;
};

/** F with the casting state stored in forward() and restored in backward(). */
template <class F> struct WithRecordedCasts {
  static constexpr auto name = F::name;
  template <class... Args>
  static auto forward(FunctionContext& context, const RecordedCasts& recorded,
                      const Args&... args) {
    context.casts = std::make_shared<const RecordedCasts>(recorded);
    return F::forward(context, args...);
  }
  static Grads backward(FunctionContext& context, const Grads& gy) {
    const RecordedScope scope(*static_cast<const RecordedCasts*>(context.casts.get()));
    return F::backward(context, gy);
  }
};

}  // namespace detail

/** Calls mezzo::custom_function with a backward that runs in the casting state of its forward, on
 *  any thread. With cast_inputs, and where casts are active, it first casts the floating-point
 *  tensors of all arguments to that dtype and runs both directions with casts off; where casts
 *  are not active it casts nothing. Errors: as mezzo::custom_function. */
template <class F, class... Args>
auto custom_function(const CustomFunctionOptions& options, const Args&... args) {
  using Wrapped = detail::WithRecordedCasts<F>;
  const RecordedCasts here = RecordedCasts::here();
  if (!options.cast_inputs || !here.active) return mezzo::custom_function<Wrapped>(here, args...);
  const detail::CastTo cast{*options.cast_inputs};
  return [](const auto&... cast_args) {
    const CastScope off(nullptr);
    return mezzo::custom_function<Wrapped>(RecordedCasts{}, cast_args...);
  }(nn::map_argument(args, cast)...);
}

}  // namespace mezzo::amp
