// The kernels of every reduction: threads fold elements, a block joins its threads' states, a second kernel those of several blocks.
// Sees: axes.h, lines.h, ../reduction.h.
// Read next: reduce.cu (the reductions made with it), ../reduction.cpp (who does what).
//
// A reduction R, passed to the kernel by value, states:
//   R::Value                       the type arithmetic runs in
//   R::State                       what is known about some elements; plain data
//   State identity()               nothing seen
//   State add(State, Value x, i)   element number i of the result, which comes after those seen
//   State combine(State, State)    in any order
//   void finish(at, State)         stores result number `at`
#pragma once

#include "../device.h"
#include "../reduction.h"
#include "axes.h"
#include "lines.h"

namespace mezzo::gpu {

template <class R>
__global__ void __launch_bounds__(kSpreadThreads)
    reduce_kernel(const __grid_constant__ Reduction plan, const R r, typename R::State* partial) {
  using State = typename R::State;
  MZ_SHARED(State, states, kSpreadThreads);
  const Role at = role_in(plan.spread);
  const std::int64_t chunk = blockIdx.x % plan.chunks;
  const std::int64_t result = blockIdx.x / plan.chunks * plan.spread.slots + at.slot;
  State state = r.identity();
  if (result < plan.kept.count) {
    const std::int64_t base = place_of(plan.kept, result);
    const std::int64_t begin = chunk * plan.chunk_length;
    const std::int64_t left = plan.reduced.count - begin;
    const std::int64_t end = begin + (left < plan.chunk_length ? left : plan.chunk_length);
    for (std::int64_t i = begin + at.part; i < end; i += plan.spread.parts) {
      const auto x = load_element<typename R::Value>(plan.data, plan.dtype, base + place_of(plan.reduced, i));
      state = r.add(state, x, i);
    }
  }
  const auto combine = [&r](State a, State b) { return r.combine(a, b); };
  state = joined(plan.spread, at, states, state, combine);
  if (at.part != 0 || result >= plan.kept.count) return;
  if (partial)
    partial[result * plan.chunks + chunk] = state;
  else
    r.finish(result, state);
}

/** One block per result joins the states of its chunks. */
template <class R>
__global__ void __launch_bounds__(kSpreadThreads)
    join_kernel(const typename R::State* partial, std::int64_t chunks, const R r) {
  using State = typename R::State;
  MZ_SHARED(State, states, kSpreadThreads);
  const int thread = static_cast<int>(threadIdx.x);
  const auto result = static_cast<std::int64_t>(blockIdx.x);
  State state = r.identity();
  for (std::int64_t i = thread; i < chunks; i += kSpreadThreads)
    state = r.combine(state, partial[result * chunks + i]);
  const auto combine = [&r](State a, State b) { return r.combine(a, b); };
  state = joined({.slots = 1, .parts = kSpreadThreads}, {0, thread}, states, state, combine);
  if (thread == 0) r.finish(result, state);
}

/** Reduces the dimensions of x in `dims`; `r` stores the results. */
template <class R> void reduce(const Tensor& x, std::uint32_t dims, const R& r) {
  using State = typename R::State;
  const Reduction plan = reduction_of(x, dims);
  if (plan.results() == 0) return;
  const runtime::Stream stream = current_stream(x.device());
  const Grid grid{.blocks = plan.blocks(), .threads = plan.spread.threads()};
  if (plan.chunks == 1) return launch(&reduce_kernel<R>, grid, stream, plan, r, static_cast<State*>(nullptr));
  const Tensor room =
      workspace(plan.results() * plan.chunks * static_cast<std::int64_t>(sizeof(State)), x.device());
  State* partial = static_cast<State*>(room.raw_data());
  launch(&reduce_kernel<R>, grid, stream, plan, r, partial);
  launch(&join_kernel<R>, {.blocks = plan.results(), .threads = kSpreadThreads}, stream, partial, plan.chunks,
         r);
}

}  // namespace mezzo::gpu
