// checkpoint: memory for time. A part of a net that keeps none of its intermediate results, and computes them again in the backward pass.
// Sees: autograd.
// Read next: ../autograd/recompute.h (how).
#pragma once

#include <concepts>
#include <utility>

#include "../autograd/grad_mode.h"
#include "../autograd/recompute.h"

namespace mezzo::nn {

namespace detail {

template <class F, std::size_t kCount> class RecomputedCall final : public RecomputedRegion {
 public:
  RecomputedCall(F f, std::span<const Tensor> arguments) : RecomputedRegion(arguments), f_(std::move(f)) {}

  template <class... Ts> auto first_run(const Ts&... x) {
    const Run run(*this, false);
    return f_(x...);
  }

 private:
  void run_again(std::span<const Tensor> x) override { call(x, std::make_index_sequence<kCount>{}); }
  template <std::size_t... I> void call(std::span<const Tensor> x, std::index_sequence<I...>) {
    static_cast<void>(f_(x[I]...));
  }

  F f_;
};

}  // namespace detail

/** f(x...), whose backward pass runs f once more instead of keeping what f's ops would save for it:
 *    Tensor y = nn::checkpoint(block, x);
 *  f is a module or anything else that takes the tensors; what it returns is returned. It is copied and called again in the first backward
 *  pass through it, and in every later one, each time under the random state and the casting state of this call; it has to do the same then: no
 *  writes to what it reads, the same mode and parameters. What it does besides (running statistics of batch norm) it does twice.
 *  Memory: x and parameters; casts of parameters and what custom functions save are kept. Calls nest.
 *  Gradient: bitwise that of f(x...), to x, to parameters and to all else f reads. With create_graph too, but for the order of sums.
 *  Errors: those of f; in the backward pass StateError where x was modified in place since, or where f does something else than the first time.
 *  Source: Chen et al., Training deep nets with sublinear memory cost (2016). */
template <class F, std::same_as<Tensor>... Ts>
requires std::invocable<F&, const Ts&...>
auto checkpoint(F f, const Ts&... x) {
  if (!grad_enabled()) return f(x...);
  const Tensor arguments[] = {x..., Tensor{}};
  const Ref<detail::RecomputedCall<F, sizeof...(Ts)>> region(new detail::RecomputedCall<F, sizeof...(Ts)>(
      std::move(f), std::span<const Tensor>(arguments, sizeof...(Ts))));
  return region->first_run(x...);
}

}  // namespace mezzo::nn
