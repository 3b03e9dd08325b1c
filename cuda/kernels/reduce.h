// The kernels of every reduction: threads fold elements, a block joins its threads' states, a second kernel those of several blocks.
// Sees: axes.h, element.h, ../reduction.h.
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
#include "element.h"

namespace mezzo::gpu {

/** states[0] of each of `slots` = the states of its `parts`, which lie `slots` apart, combined. All threads of the block take part. */
template <class R> __device__ inline void join_parts(const R& r, typename R::State* states, int slots, int slot,
                                                     int part, int parts) {
  __syncthreads();
  for (int step = parts / 2; step > 0; step /= 2) {
    if (part < step)
      states[part * slots + slot] =
          r.combine(states[part * slots + slot], states[(part + step) * slots + slot]);
    __syncthreads();
  }
}

template <class R>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_kernel(const __grid_constant__ Reduction plan, const R r, typename R::State* partial) {
  using State = typename R::State;
  MZ_SHARED(State, states, kReduceThreads);
  const int thread = static_cast<int>(threadIdx.x);
  const int slot = plan.across ? thread % plan.slots : thread / plan.parts;
  const int part = plan.across ? thread / plan.slots : thread % plan.parts;
  const std::int64_t chunk = blockIdx.x % plan.chunks;
  const std::int64_t result = blockIdx.x / plan.chunks * plan.slots + slot;
  State state = r.identity();
  if (result < plan.kept.count) {
    const std::int64_t base = place_of(plan.kept, result);
    const std::int64_t begin = chunk * plan.chunk_length;
    const std::int64_t left = plan.reduced.count - begin;
    const std::int64_t end = begin + (left < plan.chunk_length ? left : plan.chunk_length);
    for (std::int64_t i = begin + part; i < end; i += plan.parts) {
      const auto x = load_element<typename R::Value>(plan.data, plan.dtype, base + place_of(plan.reduced, i));
      state = r.add(state, x, i);
    }
  }
  states[part * plan.slots + slot] = state;
  join_parts(r, states, plan.slots, slot, part, plan.parts);
  if (part != 0 || result >= plan.kept.count) return;
  if (partial)
    partial[result * plan.chunks + chunk] = states[slot];
  else
    r.finish(result, states[slot]);
}

/** One block per result joins the states of its chunks. */
template <class R>
__global__ void __launch_bounds__(kReduceThreads)
    join_kernel(const typename R::State* partial, std::int64_t chunks, const R r) {
  using State = typename R::State;
  MZ_SHARED(State, states, kReduceThreads);
  const int thread = static_cast<int>(threadIdx.x);
  const auto result = static_cast<std::int64_t>(blockIdx.x);
  State state = r.identity();
  for (std::int64_t i = thread; i < chunks; i += kReduceThreads)
    state = r.combine(state, partial[result * chunks + i]);
  states[thread] = state;
  join_parts(r, states, 1, 0, thread, kReduceThreads);
  if (thread == 0) r.finish(result, states[0]);
}

/** Reduces the dimensions of x in `dims`; `r` stores the results. */
template <class R> void reduce(const Tensor& x, std::uint32_t dims, const R& r) {
  using State = typename R::State;
  const Reduction plan = reduction_of(x, dims);
  if (plan.results() == 0) return;
  const runtime::Stream stream = current_stream(x.device());
  const Grid grid{.blocks = plan.blocks(), .threads = kReduceThreads};
  if (plan.chunks == 1) return launch(&reduce_kernel<R>, grid, stream, plan, r, static_cast<State*>(nullptr));
  const Tensor room =
      workspace(plan.results() * plan.chunks * static_cast<std::int64_t>(sizeof(State)), x.device());
  State* partial = static_cast<State*>(room.raw_data());
  launch(&reduce_kernel<R>, grid, stream, plan, r, partial);
  launch(&join_kernel<R>, {.blocks = plan.results(), .threads = kReduceThreads}, stream, partial, plan.chunks,
         r);
}

/** Where a reduction stores its results: row-major, any dtype. */
struct Results {
  void* data = nullptr;
  DType dtype = DType::f32;

  Results() = default;
  explicit Results(const Tensor& y) : data(y.raw_data()), dtype(y.dtype()) {}
  template <class C> __device__ void store(std::int64_t at, C value) const {
    store_element<C>(data, dtype, at, value);
  }
};

/** Calls f(std::type_identity<C>{}) with the type that arithmetic on `dtype` runs in: float, double or std::int64_t. */
template <class F> void visit_arithmetic(DType dtype, F&& f) {
  switch (compute_dtype(dtype)) {
    case DType::f32: return f(std::type_identity<float>{});
    case DType::f64: return f(std::type_identity<double>{});
    default: return f(std::type_identity<std::int64_t>{});
  }
}

/** The same for floating dtypes. */
template <class F> void visit_floating(DType dtype, F&& f) {
  if (dtype == DType::f64)
    f(std::type_identity<double>{});
  else
    f(std::type_identity<float>{});
}

}  // namespace mezzo::gpu
