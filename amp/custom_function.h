// custom_function under mixed precision: what custom_fwd and custom_bwd are elsewhere.
// Sees: casting.h, functions.h; autograd/custom_function.h.
// Read next: custom_function.cpp (the recorded state).
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "../autograd/custom_function.h"
#include "functions.h"

namespace mezzo::amp {

struct CustomFunctionOptions {
  std::optional<DType> cast_inputs =
      {};  // where casts are active: cast arguments to it, run forward and backward with casts off
};

/** The casting state that a forward ran in, for its backward. */
struct MZ_API RecordedCasts {
  bool active = false;
  DType low = f16;
  bool cache_enabled = true;
  bool from_guard = true;
  /** That of this thread now. */
  static RecordedCasts here();
};

namespace detail {

/** Puts a recorded state in force until the end of the scope, inside a backward pass too. */
class MZ_API RecordedScope {
 public:
  explicit RecordedScope(const RecordedCasts& recorded);
  ~RecordedScope();
  RecordedScope(const RecordedScope&) = delete;
  RecordedScope& operator=(const RecordedScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/** From now on what is computed again (../autograd/recompute.h) is so under the casting state it was computed under. */
void let_regions_record_casts();

/** x in `dtype` if it is eligible, by a recorded cast that no cache keeps. */
struct MZ_API CastTo {
  DType dtype;
  Tensor operator()(const Tensor& x) const;
};

template <class F> struct WithRecordedCasts {
  static constexpr auto name = F::name;
  template <class... Args>
  static auto forward(FunctionContext& context, const RecordedCasts& recorded, const Args&... args) {
    context.attachment = std::make_shared<const RecordedCasts>(recorded);
    return F::forward(context, args...);
  }
  static Grads backward(FunctionContext& context, const Grads& gy) {
    const RecordedScope scope(*static_cast<const RecordedCasts*>(context.attachment.get()));
    return F::backward(context, gy);
  }
};

}  // namespace detail

/** mezzo::custom_function whose backward runs in the casting state of its forward, on whatever thread. With cast_inputs, and where casts are active, the floating
 *  tensors of all arguments are cast to that dtype first and both directions run with casts off; where none are active nothing is cast.
 *  F may not use FunctionContext::attachment. Errors: as mezzo::custom_function. */
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
