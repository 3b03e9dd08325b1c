// Distribution of lines over the threads of a block, and reductions over the threads of a line.
#pragma once

#include "../../tensor/core/compute_type.h"
#include "../runtime/device.h"
#include "element.h"
#include "host_lines.h"

namespace mezzo::gpu {

/** The calling thread's line within the block and its number among the line's threads. */
struct Role {
  int slot, part;
};
__device__ inline Role role_in(const Spread& spread) {
  const int thread = static_cast<int>(threadIdx.x);
  if (spread.across) return {thread % spread.slots, thread / spread.slots};
  return {thread / spread.parts, thread % spread.parts};
}

/** Combines the states of all threads of a line and returns the result to each of them. `room` is
 *  shared memory for one state per thread and may be reused afterwards. All threads of the block
 *  must call it. */
template <class State, class Combine>
__device__ inline State joined(const Spread& spread, Role at, State* room, State state,
                               const Combine& combine) {
  State* line = room + at.slot;
  __syncthreads();  // earlier results in `room` may still be read
  line[at.part * spread.slots] = state;
  for (int step = spread.parts / 2; step > 0; step /= 2) {
    __syncthreads();
    if (at.part < step)
      line[at.part * spread.slots] =
          combine(line[at.part * spread.slots], line[(at.part + step) * spread.slots]);
  }
  __syncthreads();
  return line[0];
}

/** The calling thread's elements of its line. Every thread of the block must construct it; threads
 *  beyond the last line have no elements. */
struct LineWalk {
  const Lines& lines;
  Role at;
  std::int64_t line = 0, base = 0;
  bool has_line = false;

  __device__ explicit LineWalk(const Lines& l) : LineWalk(l, blockIdx.x) {}
  /** For the work of the given block instead of the calling one. */
  __device__ LineWalk(const Lines& l, std::int64_t block) : lines(l), at(role_in(l.spread)) {
    line = block * l.spread.slots + at.slot;
    has_line = line < l.count;
    base = line / l.inner * l.length * l.inner + line % l.inner;
  }
  /** Returns true for one thread of each line. */
  __device__ bool is_first() const { return has_line && at.part == 0; }
  /** Calls f(place, i) for each element of the thread: its offset and its index in the line. */
  template <class F> __device__ void for_each(F&& f) const {
    if (has_line)
      for (std::int64_t i = at.part; i < lines.length; i += lines.spread.parts)
        f(base + i * lines.inner, i);
  }
  /** Combines value(place, i) of all elements of the line, beginning with `start`. */
  template <class State, class Combine, class Value>
  __device__ State fold(State* room, State start, const Combine& combine, Value&& value) const {
    State state = start;
    for_each([&](std::int64_t place, std::int64_t i) { state = combine(state, value(place, i)); });
    return joined(lines.spread, at, room, state, combine);
  }
};

inline Grid grid_of(const Lines& lines) {
  return {.blocks = lines.blocks(), .threads = lines.spread.threads()};
}

/** A row-major array of any dtype, or an absent one. */
struct Array {
  void* data = nullptr;
  DType dtype = DType::f32;

  Array() = default;
  explicit Array(const Tensor& x) {
    if (!x.defined()) return;
    data = x.raw_data();
    dtype = x.dtype();
  }
  template <class C> __device__ C load(std::int64_t at) const {
    return load_element<C>(data, dtype, at);
  }
  /** Returns `absent` if there is no array. */
  template <class C> __device__ C load_or(std::int64_t at, C absent) const {
    return data ? load<C>(at) : absent;
  }
  template <class C> __device__ void store(std::int64_t at, C value) const {
    store_element<C>(data, dtype, at, value);
  }
};

}  // namespace mezzo::gpu
