// checkpoint(): recomputes the intermediate results of a function in the backward pass instead of
// saving them. See also: autograd/recompute.h (the mechanism).
#pragma once

#include <concepts>
#include <utility>

#include "../autograd/recompute.h"
#include "../tensor/core/dispatch.h"

namespace mezzo::nn {

namespace detail {

/** Region that calls f again with its saved arguments. */
template <class F, std::size_t kCount> class RecomputedCall final : public RecomputedRegion {
 public:
  RecomputedCall(F f, std::span<const Tensor> arguments)
      : RecomputedRegion(arguments), f_(std::move(f)) {}

  template <class... Ts> auto first_run(const Ts&... x) {
    const Run run(*this, false);
    return f_(x...);
  }

 private:
  void run_again(std::span<const Tensor> x) override {
    call(x, std::make_index_sequence<kCount>{});
  }
  template <std::size_t... I> void call(std::span<const Tensor> x, std::index_sequence<I...>) {
    static_cast<void>(f_(x[I]...));
  }

  F f_;
};

}  // namespace detail

/** Returns f(x...) and runs f again in the backward pass instead of saving tensors for it:
 *    Tensor y = nn::checkpoint(block, x);
 *  f is a module or any other function of the tensors. It is copied and called again in every
 *  backward pass through it, under the random state and the casting state of the first call. It
 *  must do the same each time: it must not write to its inputs, and mode and parameters must not
 *  change. Its side effects, such as updates of running statistics, happen twice. Calls nest.
 *  Memory: x and parameters stay in memory, and so do casts of parameters and tensors saved by
 *  custom functions.
 *  Gradient: bitwise that of f(x...), for x, parameters and all other tensors that f reads. With
 *  create_graph it may differ in the order of sums.
 *  Errors: those of f; in the backward pass StateError if x was modified in place or if f does not
 *  repeat its first run.
 *  Source: Chen et al., Training deep nets with sublinear memory cost (2016). */
template <class F, std::same_as<Tensor>... Ts>
requires std::invocable<F&, const Ts&...>
auto checkpoint(F f, const Ts&... x) {
  if (!grad_enabled()) return f(x...);
  const Tensor arguments[] = {x..., Tensor{}};
  const Ref<detail::RecomputedCall<F, sizeof...(Ts)>> region(
      new detail::RecomputedCall<F, sizeof...(Ts)>(
          std::move(f), std::span<const Tensor>(arguments, sizeof...(Ts))));
  return region->first_run(x...);
}

}  // namespace mezzo::nn
