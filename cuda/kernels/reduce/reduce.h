// The kernels of all reductions. Threads fold elements, a block combines the states of its threads,
// and a second kernel combines those of several blocks.
//
// A reduction R, passed to the kernel by value, defines:
//   R::Value                       the compute type
//   R::State                       the state of some elements; plain data
//   State identity()               the state of no elements
//   State add(State, Value x, i)   adds element i of the result; elements come in order
//   State combine(State, State)    in any order
//   void finish(at, State)         stores result `at`
// If sums may leave the range of their type, it also defines:
//   bool is_safe(State)            whether the result follows from the state of all elements
//   R rescaled(State)              for other states: the reduction to repeat, which multiplies
//                                  elements by a power of two
//   bool may_repeat()              on the host, optional: false if all states are safe
#pragma once

#include "../../../tensor/core/row_major.h"
#include "../../../tensor/math/safe_sum.h"
#include "../../runtime/device.h"
#include "../axes.h"
#include "../host_lines.h"
#include "../lines.h"
#include "../typed.h"

namespace mezzo::gpu {

/** The calling thread's result and its elements. Every thread of the block must construct it;
 *  threads beyond the last result have no elements. */
struct ReduceWalk {
  const ReductionPlan& plan;
  Role at;
  std::int64_t chunk, result;
  bool has_result;

  __device__ explicit ReduceWalk(const ReductionPlan& p)
      : plan(p),
        at(role_in(p.spread)),
        chunk(blockIdx.x % p.chunks),
        result(blockIdx.x / p.chunks * p.spread.slots + at.slot),
        has_result(result < p.kept.count) {}
  /** Calls f(i) for each element of the thread. */
  template <class F> __device__ void for_each(F&& f) const {
    if (!has_result) return;
    const std::int64_t begin = chunk * plan.chunk_length;
    const std::int64_t left = plan.reduced.count - begin;
    const std::int64_t end = begin + (left < plan.chunk_length ? left : plan.chunk_length);
    for (std::int64_t i = begin + at.part; i < end; i += plan.spread.parts) f(i);
  }
  /** Combines the states of the result's threads and stores the result or the chunk's state. All
   *  threads of the block must call it. */
  template <class R>
  __device__ void finish(const R& r, typename R::State* room, typename R::State state,
                         typename R::State* partial) const {
    using State = typename R::State;
    state =
        joined(plan.spread, at, room, state, [&r](State a, State b) { return r.combine(a, b); });
    if (at.part != 0 || !has_result) return;
    if (partial)
      partial[result * plan.chunks + chunk] = state;
    else
      r.finish(result, state);
  }
};

/** A reduction that is repeated where its sums left the range of their type. */
template <class R>
concept Rescalable = requires(const R& r, typename R::State state) {
  r.is_safe(state);
  r.rescaled(state);
};

/** Returns the state of some elements of a result: every `step`th from `begin` on. Not inlined:
 * this is the slow way. */
template <class R>
__device__ __noinline__ typename R::State repeated(const ReductionPlan& plan, const R& r,
                                                   std::int64_t result, std::int64_t begin,
                                                   std::int64_t step) {
  const std::int64_t base = place_of(plan.kept, result);
  typename R::State state = r.identity();
  for (std::int64_t i = begin; i < plan.reduced.count; i += step)
    state = r.add(
        state,
        load_element<typename R::Value>(plan.data, plan.dtype, base + place_of(plan.reduced, i)),
        i);
  return state;
}

/** Stores a result that one block has the elements of, or repeats the reduction first. `state` is
 *  that of all elements, in each thread of the result. All threads of the block must call it. */
template <class R>
__device__ void finish_safely(const ReductionPlan& plan, const R& r, const Spread& spread, Role at,
                              std::int64_t result, bool has_result, typename R::State state,
                              typename R::State* room) {
  using State = typename R::State;
  const bool repeats = has_result && !r.is_safe(state);
  R last = r;
  if (__syncthreads_or(repeats)) {
    if (repeats) last = r.rescaled(state);
    State again = repeats ? repeated(plan, last, result, at.part, spread.parts) : state;
    again = joined(spread, at, room, again, [&r](State a, State b) { return r.combine(a, b); });
    if (repeats) state = again;
  }
  if (at.part == 0 && has_result) last.finish(result, state);
}

template <class R>
__global__ void __launch_bounds__(kSpreadThreads)
    reduce_kernel(const ReductionPlan __grid_constant__ plan, const R r,
                  typename R::State* partial) {
  using State = typename R::State;
  MZ_SHARED(State, states, kSpreadThreads);
  const ReduceWalk walk(plan);
  const std::int64_t base = walk.has_result ? place_of(plan.kept, walk.result) : 0;
  State state = r.identity();
  walk.for_each([&](std::int64_t i) {
    const auto x =
        load_element<typename R::Value>(plan.data, plan.dtype, base + place_of(plan.reduced, i));
    state = r.add(state, x, i);
  });
  if constexpr (Rescalable<R>) {
    if (!partial) {
      state = joined(plan.spread, walk.at, states, state,
                     [&r](State a, State b) { return r.combine(a, b); });
      return finish_safely(plan, r, plan.spread, walk.at, walk.result, walk.has_result, state,
                           states);
    }
  }
  walk.finish(r, states, state, partial);
}

/** Combines the states of each result's chunks. The plan has the elements; the spread is that of
 *  the chunks. */
template <class R>
__global__ void __launch_bounds__(kSpreadThreads)
    join_kernel(const ReductionPlan __grid_constant__ plan, const typename R::State* partial,
                std::int64_t results, std::int64_t chunks, const Spread spread, const R r) {
  using State = typename R::State;
  MZ_SHARED(State, states, kSpreadThreads);
  const Role at = role_in(spread);
  const std::int64_t result = std::int64_t{blockIdx.x} * spread.slots + at.slot;
  const bool has_result = result < results;
  State state = r.identity();
  if (has_result)
    for (std::int64_t i = at.part; i < chunks; i += spread.parts)
      state = r.combine(state, partial[result * chunks + i]);
  const auto combine = [&r](State a, State b) { return r.combine(a, b); };
  state = joined(spread, at, states, state, combine);
  if constexpr (Rescalable<R>)
    finish_safely(plan, r, spread, at, result, has_result, state, states);
  else if (has_result && at.part == 0)
    r.finish(result, state);
}

/** Calls run(partial) to launch the kernel of a reduction, and combines the states of the chunks of
 *  each result where there are several; `partial` is null for one. The plan has the elements. */
template <class R, class Run>
void reduce_chunks(const ReductionPlan& plan, std::int64_t results, std::int64_t chunks, const R& r,
                   Device device, const Run& run) {
  using State = typename R::State;
  if (chunks == 1) return run(static_cast<State*>(nullptr));
  const Tensor room =
      workspace(results * chunks * static_cast<std::int64_t>(sizeof(State)), device);
  State* partial = static_cast<State*>(room.raw_data());
  run(partial);
  bool may_repeat = Rescalable<R>;  // with all threads of a block
  if constexpr (requires { r.may_repeat(); }) may_repeat = r.may_repeat();
  const std::int64_t length = may_repeat ? kSpreadThreads : chunks;
  const Lines joins{
      .count = results, .length = chunks, .spread = spread_over(results, length, false)};
  launch(&join_kernel<R>, grid_of(joins), current_stream(device), plan, partial, results, chunks,
         joins.spread, r);
}

/** Calls run(grid, partial) to launch the kernel of a plan, and combines the states of the chunks
 *  where there are several. */
template <class R, class Run>
void reduce_by(const ReductionPlan& plan, const R& r, Device device, const Run& run) {
  if (plan.results() == 0) return;
  const Grid grid{.blocks = plan.blocks(), .threads = plan.spread.threads()};
  reduce_chunks(plan, plan.results(), plan.chunks, r, device,
                [&](typename R::State* partial) { run(grid, partial); });
}

/** Reduces the dimensions of x in `dims`; `r` stores the results. */
template <class R> void reduce(const Tensor& x, std::uint32_t dims, const R& r) {
  const ReductionPlan plan = reduction_of(x, dims);
  reduce_by(plan, r, x.device(), [&](const Grid& grid, typename R::State* partial) {
    launch(&reduce_kernel<R>, grid, current_stream(x.device()), plan, r, partial);
  });
}

/** An element and its index. */
template <class C> struct Found {
  C value;
  std::int64_t index;  // negative: no element
};

/** Returns the better of two by Better (see tensor/cpu/order.h). Of equal elements, NaN included,
 *  the one with the lower index wins, because threads visit a line in an interleaved order. */
template <class Better, class C> __device__ Found<C> first_best(Found<C> a, Found<C> b) {
  if (b.index < 0) return a;
  if (a.index < 0 || Better{}(b.value, a.value)) return b;
  return Better{}(a.value, b.value) || a.index < b.index ? a : b;
}

// ---- rows of packs ------------------------------------------------------------------------------

/** Sums of images for each channel run on packs from so many elements on. */
inline constexpr std::int64_t kLeastOfImages = 1 << 16;

/** The dimensions of a reduction in an order of memory that the shape and the dtype decide: other
 *  layouts are copied. Rows run along the last dimension; means of images along channels, if
 *  positions are not whole packs and channels are. Sums of images for each channel run along the
 *  channels of channels-last ones, of whole packs. */
struct PackView {
  Axes kept, reduced;  // of the elements of packed()

  PackView(const Tensor& input, std::uint32_t dims) : input_(input) {
    const std::uint32_t positions = (1u << input.dim()) - 4;  // dimensions 2 and up
    if (may_be_channels_last(input.dim()) && input.numel() > 0 &&
        are_packs(input.size(1), input.dtype())) {
      if (dims == positions)
        at_end_ = !are_packs(input.numel() / (input.size(0) * input.size(1)), input.dtype());
      if (dims == (positions | 1) && input.numel() >= kLeastOfImages)
        at_end_ = is_channels_last_inside(input) ||
                  (!input.is_contiguous() && input.is_contiguous(MemoryFormat::channels_last));
    }
    const MemoryFormat format = at_end_ ? MemoryFormat::channels_last : MemoryFormat::contiguous;
    const auto dim = [&](int place) { return dim_at(format, input.dim(), place); };
    Shape shape = input.shape();
    for (int i = 0; i < input.dim(); ++i) shape[i] = input.shape()[dim(i)];
    const Strides strides = contiguous_strides(shape);
    for (int i = 0; i < input.dim(); ++i)
      ((dims >> dim(i) & 1) != 0 ? reduced : kept).push(shape[i], strides[i]);
  }
  /** Returns the elements in that order, aligned. */
  Tensor packed() const {
    return aligned(at_end_ ? channels_at_end(to_format(input_, MemoryFormat::channels_last))
                           : row_major(input_));
  }
  /** Returns true if x, of the shape of the operand, has its elements in that order, aligned. */
  bool has_order_of(const Tensor& x) const {
    return !at_end_ && x.is_contiguous() &&
           reinterpret_cast<std::uintptr_t>(x.raw_data()) % 16 == 0;
  }

 private:
  Tensor input_;
  bool at_end_ = false;
};

/** Returns the state of the calling thread's packs of a row, whose first element is `first` of the
 *  result. Not inlined: this is the slow way. */
template <class T, class R>
__device__ __noinline__ typename R::State repeated_packs(const T* row, int packs, int lanes,
                                                         int lane, std::int64_t first, const R& r) {
  constexpr int kWidth = kPerPack<T>;
  typename R::State state = r.identity();
  for (int at = lane; at < packs; at += lanes) {
    float values[kWidth];
    load_values<kWidth>(row + static_cast<std::int64_t>(at) * kWidth, values);
    for (int k = 0; k < kWidth; ++k) state = r.add(state, values[k], first + at * kWidth + k);
  }
  return state;
}

/** A state that threads exchange, in whole words of a power of two. */
template <class State> struct Exchangeable {
  alignas(std::bit_ceil(sizeof(State))) State of;
};

/** Reduces parts of rows of packs of T. */
template <class T, class R>
__global__ void __launch_bounds__(kTeamThreads)
    packed_row_kernel(const RowParts rows, const T* x, const R r, typename R::State* partial) {
  using State = typename R::State;
  constexpr int kWidth = kPerPack<T>;
  using Held = Exchangeable<State>;
  MZ_SHARED(Held, room, kTeamWarps);
  const PartTeam team(rows);
  const T* const part = x + (team.whole_row * rows.packs + team.first_pack) * kWidth;
  const std::int64_t first = std::int64_t{team.first_pack} * kWidth;
  const auto combine = [&r](const Held& a, const Held& b) { return Held{r.combine(a.of, b.of)}; };
  RowPacks<T, 1> row(team, team.packs, part);
  State state = r.identity();
  row.for_each([&](int, int at, const float(&v)[1][kWidth]) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) state = r.add(state, v[0][k], first + at + k);
  });
  state = team.all(Held{state}, combine, room).of;
  if (partial) {
    if (team.is_first()) partial[team.row] = state;
    return;
  }
  R last = r;
  if constexpr (Rescalable<R>) {
    const bool repeats = team.has_row && !r.is_safe(state);
    if (__any_sync(kAllLanes, repeats)) {  // a team of several warps agrees
      if (repeats) last = r.rescaled(state);
      const State part_of =
          repeats ? repeated_packs(part, team.packs, team.lanes, team.lane, first, last) : state;
      const State again = team.all(Held{part_of}, combine, room).of;
      if (repeats) state = again;
    }
  }
  if (team.is_first()) last.finish(team.row, state);
}

/** Launches packed_row_kernel and returns true if it takes the reduction: of adjacent elements, in
 *  whole packs. */
template <class R>
bool reduce_rows(const PackView& view, const Tensor& input, std::uint32_t dims, const R& r) {
  const Axes &kept = view.kept, &reduced = view.reduced;
  if (kept.count == 0 || kept.rank > 1 || reduced.rank != 1 || reduced.strides[0] != 1 ||
      !are_packs(reduced.count, input.dtype()))
    return false;
  const Tensor x = view.packed();
  const Device device = x.device();
  const RowParts rows = RowParts::of(kept.count, reduced.count, x.dtype());
  visit_packed(x.dtype(), [&]<class T>(std::type_identity<T>) {
    reduce_chunks(reduction_of(input, dims), kept.count, rows.parts, r, device,
                  [&](typename R::State* partial) {
                    launch(&packed_row_kernel<T, R>, rows.teams.grid(), current_stream(device),
                           rows, x.template data<T>(), r, partial);
                  });
  });
  return true;
}

/** Does the same as reduce(), on packs where the elements of a result are adjacent in memory. */
template <class R> void reduce_packed(const Tensor& x, std::uint32_t dims, const R& r) {
  if constexpr (std::is_same_v<typename R::Value, float>)
    if (reduce_rows(PackView(x, dims), x, dims, r)) return;
  reduce(x, dims, r);
}

/** A fold by a binary function with the neutral element `start`. */
template <class C, class Combine> struct Fold {
  using Value = C;
  using State = C;
  C start;
  Array out;

  __device__ State identity() const { return start; }
  __device__ State add(State a, C x, std::int64_t) const { return Combine{}(a, x); }
  __device__ State combine(State a, State b) const { return Combine{}(a, b); }
  __device__ void finish(std::int64_t at, State s) const { out.store<C>(at, s); }
};

/** Folds the dimensions of x in `dims` by Combine into y. */
template <class C, class Combine>
void fold(const Tensor& x, const Tensor& y, std::uint32_t dims, C start) {
  reduce(x, dims, Fold<C, Combine>{start, Array(y)});
}

/** A sum, divided by `divisor` for means. A mean whose sum overflows is repeated. */
template <class C> struct SumOf {
  using Value = C;
  using State = C;
  C divisor;
  Array out;
  C scale = C(1);

  __device__ State identity() const { return C(0); }
  __device__ State add(State a, C x, std::int64_t) const { return a + x * scale; }
  __device__ State combine(State a, State b) const { return a + b; }
  bool may_repeat() const { return divisor != C(1); }
  __device__ bool is_safe(State s) const { return divisor == C(1) || math::is_finite(s); }
  __device__ SumOf rescaled(State) const {
    SumOf other = *this;
    other.scale = C(0x1p-60);
    return other;
  }
  __device__ void finish(std::int64_t at, State s) const {
    const C mean = divisor == C(1) ? s : static_cast<C>(s / divisor);
    out.store<C>(at, scale == C(1) ? mean : mean / scale);
  }
};

}  // namespace mezzo::gpu
