// reduce_tensor: runs any reduction over any set of dimensions, in chunks on all threads, and
// combines the chunks' results.
//
// A reduction R has these members:
//   R::Value                   the compute type (float, double, std::int64_t)
//   R::State                   the state after some elements
//   State identity()           the state after no elements
//   State row(const Value* x, n, first)
//                              n <= kReductionChunk elements, from number `first` of the line on
//   void columns(const Value* x, rows, stride, width, first, State* out)
//                              width <= kMaxColumns lines at once
//                              optional for BFloat16* too, with the bits of the widened values
//   State combine(State a, State b)
//                              a's elements come before b's
// Chunks are divided and combined pairwise in an order that depends on the shape alone, so the bits
// do not depend on strides or on the number of threads.
#pragma once

#include <array>
#include <memory>
#include <type_traits>

#include "../device/parallel.h"
#include "block_io.h"
#include "block_map.h"
#include "fold.h"
#include "transpose.h"

namespace mezzo::cpu_kernels {

/** A contiguous tensor as [outer][length][inner], of which `length` is reduced. */
struct Extent {
  std::int64_t outer = 1, length = 1, inner = 1;
};

/** The steps that reduce the dimensions in `dims` (bit i: dimension i), innermost first, adjacent
 *  dimensions merged. At least one. */
struct ReductionSteps {
  std::array<Extent, Shape::kMaxRank / 2> items;
  std::size_t count = 0;
};
ReductionSteps reduction_steps(const Shape& shape, std::uint32_t dims);

/** Returns the number of rows in a chunk of columns. */
constexpr std::int64_t column_chunk_rows(std::int64_t inner) {
  return 64 * rows_side_by_side(inner);
}

/** The maximum number of states emitted at once. */
inline constexpr std::int64_t kMaxEmitted = 256;
static_assert(kMaxEmitted >= kMaxColumns);

/** Approximate number of elements in one thread's panel. */
inline constexpr std::int64_t kPanel = 16384;

/** The lengths of rows that are reduced many at a time. */
struct ShortRows {
  std::int64_t least, most;
};
inline constexpr ShortRows kShortRows{2, 128};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/** A reference to a function emit(at, states, n), which must outlive it. Erases its type, so that a
 *  reduction is compiled once for all uses of its results. */
template <class State> class Emit {
 public:
  template <class F>
  requires(!std::is_same_v<F, Emit>)
  Emit(const F& emit)
      : object_(std::addressof(emit)),
        call_([](const void* object, std::int64_t at, const State* states, std::int64_t n) {
          (*static_cast<const F*>(object))(at, states, n);
        }) {}

  void operator()(std::int64_t at, const State* states, std::int64_t n) const {
    call_(object_, at, states, n);
  }

 private:
  const void* object_;
  void (*call_)(const void*, std::int64_t, const State*, std::int64_t);
};

/** Whether R reads columns of bf16 values itself. Rows of them are faster through a buffer. */
template <class R>
inline constexpr bool kReadsBf16 = kLoopsReadBf16 && std::is_same_v<typename R::Value, float> &&
                                   requires(const R& r, const BFloat16* x, typename R::State* out) {
                                     r.columns(x, 1, 1, 1, 0, out);
                                   };

/** Runs a reduction R over chunks and combines the states. */
template <class R> class Reduction {
 public:
  using Value = typename R::Value;
  using State = typename R::State;
  using Emit = cpu_kernels::Emit<State>;

  Reduction(const R& r, double element_ns) : r_(r), element_ns_(element_ns) {}

  /** Reduces x over `length`; the state of line (o, i) is emitted by emit(at, states, n) with
   *  number o * inner + i. */
  void first_step(const BlockReader<Value>& x, const Extent& e, Emit emit) const {
    if (e.inner == 1)
      rows(x, e, emit);
    else
      columns(x, e, emit);
  }

  /** Reduces an array of states over `length`; overwrites the array. */
  void later_step(State* states, const Extent& e, Emit emit) const {
    for (std::int64_t o = 0; o < e.outer; ++o, states += e.length * e.inner) {
      combine_tree(states, e.length, e.inner);
      for (std::int64_t i = 0; i < e.inner; i += kMaxEmitted)
        emit(o * e.inner + i, states + i, std::min(kMaxEmitted, e.inner - i));
    }
  }

 private:
  void rows(const BlockReader<Value>& x, const Extent& e, Emit emit) const {
    if (e.length > kReductionChunk) return long_rows(x, e, emit);
    if (e.length >= kShortRows.least && e.length <= kShortRows.most) return short_rows(x, e, emit);
    const std::int64_t rows_per_block = std::max<std::int64_t>(1, kReductionChunk / e.length);
    const auto panel = [&](std::int64_t begin, std::int64_t end) {
      alignas(64) Value buffer[kReductionChunk];
      State states[kMaxEmitted];
      for (std::int64_t r = begin; r < end;) {
        const std::int64_t count = std::min({rows_per_block, end - r, kMaxEmitted});
        const Value* values = x.read(r * e.length, count * e.length, buffer);
        for (std::int64_t k = 0; k < count; ++k)
          states[k] = r_.row(values + k * e.length, e.length, 0);
        emit(r, states, count);
        r += count;
      }
    };
    if (e.outer * e.length <= kPanel) return panel(0, e.outer);
    parallel_chunks(e.outer, ceil_div(kPanel, e.length), panel, cost_of(e.length));
  }

  /** Reduces transposed rows, so that vectors span 64 rows rather than one. */
  void short_rows(const BlockReader<Value>& x, const Extent& e, Emit emit) const {
    constexpr std::int64_t kRows = kNarrow;
    const auto panel = [&](std::int64_t begin, std::int64_t end) {
      alignas(64) Value rows[kRows * kShortRows.most], columns[kRows * kShortRows.most];
      State states[kRows];
      for (std::int64_t r = begin; r < end; r += kRows) {
        const std::int64_t count = std::min(kRows, end - r);
        transpose(x.read(r * e.length, count * e.length, rows), e.length, columns, kRows, count,
                  e.length);
        // Missing rows are computed as zeros and not emitted.
        if (count < kRows)
          for (std::int64_t i = 0; i < e.length; ++i)
            std::fill(columns + i * kRows + count, columns + (i + 1) * kRows, Value(0));
        r_.columns(columns, e.length, kRows, kRows, 0, states);
        emit(r, states, count);
      }
    };
    if (e.outer * e.length <= kPanel) return panel(0, e.outer);
    parallel_chunks(e.outer, ceil_div(kPanel, kRows * e.length) * kRows, panel, cost_of(e.length));
  }

  void long_rows(const BlockReader<Value>& x, const Extent& e, Emit emit) const {
    const std::int64_t chunks = ceil_div(e.length, kReductionChunk);
    const auto states =
        std::make_unique_for_overwrite<State[]>(static_cast<std::size_t>(e.outer * chunks));
    parallel_chunks(
        e.outer * chunks, kPanel / kReductionChunk,
        [&](std::int64_t begin, std::int64_t end) {
          alignas(64) Value buffer[kReductionChunk];
          for (std::int64_t c = begin; c < end; ++c) {
            const std::int64_t first = c % chunks * kReductionChunk;
            const std::int64_t n = std::min(kReductionChunk, e.length - first);
            const Value* values = x.read(c / chunks * e.length + first, n, buffer);
            states[static_cast<std::size_t>(c)] = r_.row(values, n, first);
          }
        },
        cost_of(kReductionChunk));
    for (std::int64_t o = 0; o < e.outer; ++o) {
      State* line = states.get() + o * chunks;
      combine_tree(line, chunks, 1);
      emit(o, line, 1);
    }
  }

  void columns(const BlockReader<Value>& x, const Extent& e, Emit emit) const {
    const std::int64_t blocks = ceil_div(e.inner, kMaxColumns);
    const std::int64_t chunk_rows = column_chunk_rows(e.inner),
                       chunks = ceil_div(e.length, chunk_rows);
    std::unique_ptr<State[]> partial;
    if (chunks > 1)
      partial = std::make_unique_for_overwrite<State[]>(
          static_cast<std::size_t>(e.outer * chunks * e.inner));
    const auto panel = [&](std::int64_t begin, std::int64_t end) {
      State states[kMaxColumns];
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t o = task / (chunks * blocks), chunk = task / blocks % chunks;
        const std::int64_t column = task % blocks * kMaxColumns;
        const std::int64_t width = std::min(kMaxColumns, e.inner - column);
        State* out = chunks > 1 ? partial.get() + (o * chunks + chunk) * e.inner + column : states;
        column_chunk(x, e, o, chunk * chunk_rows, column, width, out);
        if (chunks == 1) emit(o * e.inner + column, states, width);
      }
    };
    const std::int64_t tasks = e.outer * chunks * blocks;
    const std::int64_t task_size = std::min(chunk_rows, e.length) * std::min(kMaxColumns, e.inner);
    if (tasks * task_size <= kPanel)
      panel(0, tasks);
    else
      parallel_chunks(tasks, ceil_div(kPanel, task_size), panel, cost_of(task_size));
    if (chunks > 1) later_step(partial.get(), {e.outer, chunks, e.inner}, emit);
  }

  void column_chunk(const BlockReader<Value>& x, const Extent& e, std::int64_t o, std::int64_t row,
                    std::int64_t column, std::int64_t width, State* out) const {
    const std::int64_t rows = std::min(column_chunk_rows(e.inner), e.length - row);
    const std::int64_t at = (o * e.length + row) * e.inner + column;
    if constexpr (kReadsBf16<R>)
      if (x.dtype() == DType::bf16)
        return r_.columns(x.template in_place<BFloat16>(at), rows, e.inner, width, row, out);
    alignas(64) Value buffer[64 * kMaxColumns];
    const Value* values = buffer;
    std::int64_t stride = kMaxColumns;
    if (x.direct()) {
      values = x.read(at, 0, nullptr);
      stride = e.inner;
    } else if (width == e.inner) {
      x.read(at, rows * width, buffer);
      stride = width;
    } else {
      // A part of each row. The buffer is strided like the tensor, so that the order of additions
      // does not depend on the dtype.
      for (std::int64_t r = 0; r < rows; ++r)
        x.read(at + r * e.inner, width, buffer + r * kMaxColumns);
    }
    r_.columns(values, rows, stride, width, row, out);
  }

  /** Combines all `count` rows of states pairwise in order into states[0..inner). */
  void combine_tree(State* states, std::int64_t count, std::int64_t inner) const {
    for (std::int64_t step = 1; step < count; step *= 2)
      for (std::int64_t r = 0; r + step < count; r += 2 * step) {
        State* a = states + r * inner;
        const State* b = states + (r + step) * inner;
        for (std::int64_t i = 0; i < inner; ++i) a[i] = r_.combine(a[i], b[i]);
      }
  }

  double cost_of(std::int64_t elements) const {
    return element_ns_ * static_cast<double>(elements);
  }

  const R& r_;
  double element_ns_;
};

/** Reduces the dimensions of x in `dims` and emits the final states in row-major order of the
 *  result: emit(at, states, n) with n <= kMaxEmitted, from any thread. Emits nothing for an empty
 *  result. */
template <class R>
void reduce_tensor(const Tensor& x, std::uint32_t dims, const R& r, Emit<typename R::State> emit,
                   double element_ns = 0.1) {
  using State = typename R::State;
  const ReductionSteps steps = reduction_steps(x.shape(), dims);
  if (x.numel() == 0) {
    std::int64_t results = 1;
    for (int i = 0; i < x.dim(); ++i)
      if (!(dims >> i & 1)) results *= x.shape()[i];
    const State none = r.identity();
    for (std::int64_t i = 0; i < results; ++i) emit(i, &none, 1);
    return;
  }
  const Tensor source = row_major(x);
  const Reduction<R> reduction(r, element_ns);
  if (steps.count == 1) return reduction.first_step(source, steps.items[0], emit);
  std::unique_ptr<State[]> states;
  std::unique_ptr<State[]> next;
  const auto make_next = [&next](const Extent& e) {
    next = std::make_unique_for_overwrite<State[]>(static_cast<std::size_t>(e.outer * e.inner));
  };
  const auto collect = [&next](std::int64_t at, const State* s, std::int64_t n) {
    std::copy(s, s + n, next.get() + at);
  };
  make_next(steps.items[0]);
  reduction.first_step(source, steps.items[0], collect);
  states = std::move(next);
  for (std::size_t i = 1; i + 1 < steps.count; ++i) {
    make_next(steps.items[i]);
    reduction.later_step(states.get(), steps.items[i], collect);
    states = std::move(next);
  }
  reduction.later_step(states.get(), steps.items[steps.count - 1], emit);
}

}  // namespace mezzo::cpu_kernels
