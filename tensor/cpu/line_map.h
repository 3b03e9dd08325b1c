// map_lines: runs a function over each line of tensors along one dimension, with the line's elements side by side in memory.
// Sees: block_io.h, ../parallel.h.
// Read next: softmax.cpp.
#pragma once

#include <array>

#include "../parallel.h"
#include "block_io.h"

namespace mezzo::cpu_kernels {

/** A row-major tensor seen along one dimension: [outer][length][inner]. */
struct LineShape {
  std::int64_t outer = 1, length = 1, inner = 1;
  LineShape(const Shape& shape, int dim) {
    for (int i = 0; i < shape.rank(); ++i) (i < dim ? outer : i == dim ? length : inner) *= shape[i];
  }
  std::int64_t count() const { return outer * inner; }
};

/** One thread's share of lines has about this many elements. */
inline constexpr std::int64_t kLinePanel = 16384;

/** Lines that lie across memory are brought together this many at a time: a cache line of each row. */
inline constexpr std::int64_t kLineTile = 16;

namespace detail {

/** `width` lines from (outer, column) on, each side by side at to + i * length. */
template <class C>
void gather_lines(const BlockReader<C>& x, const LineShape& s, std::int64_t outer, std::int64_t column,
                  std::int64_t width, C* to) {
  C row[kLineTile];
  for (std::int64_t r = 0; r < s.length; ++r) {
    const C* from = x.read((outer * s.length + r) * s.inner + column, width, row);
    for (std::int64_t i = 0; i < width; ++i) to[i * s.length + r] = from[i];
  }
}

template <class C>
void scatter_lines(const C* from, const LineShape& s, std::int64_t outer, std::int64_t column,
                   std::int64_t width, const BlockWriter<C>& y) {
  C row[kLineTile];
  for (std::int64_t r = 0; r < s.length; ++r) {
    for (std::int64_t i = 0; i < width; ++i) row[i] = from[i * s.length + r];
    y.copy((outer * s.length + r) * s.inner + column, width, row);
  }
}

}  // namespace detail

/** For each line: f(in, out, n) with in[k] and out pointing at n values of the line. `in` are row-major tensors of out's shape.
 *  Results depend neither on the dimension's place nor on threads. */
template <class C, std::size_t K, class F>
void map_lines(const std::array<Tensor, K>& in, Tensor& out, int dim, F&& f, double element_ns) {
  if (out.numel() == 0) return;
  const LineShape s(out.shape(), dim);
  const auto readers = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<BlockReader<C>, K>{BlockReader<C>(in[I])...};
  }
  (std::make_index_sequence<K>{});
  const BlockWriter<C> writer(out);
  const std::int64_t n = s.length, tile = s.inner == 1 ? 1 : std::min(kLineTile, s.inner);
  const std::int64_t tiles_across = (s.inner + tile - 1) / tile;

  const auto run_rows = [&](std::int64_t begin, std::int64_t end) {
    bool direct = writer.direct();
    for (const BlockReader<C>& r : readers) direct = direct && r.direct();
    Scratch<C> scratch(direct ? 0 : static_cast<std::int64_t>(K + 1) * n);
    for (std::int64_t line = begin; line < end; ++line) {
      const C* values[K];
      for (std::size_t k = 0; k < K; ++k)
        values[k] = readers[k].read(line * n, n, scratch.data() + static_cast<std::int64_t>(k) * n);
      C* results = writer.target(line * n, scratch.data() + static_cast<std::int64_t>(K) * n);
      f(values, results, n);
      writer.write(line * n, n, results);
    }
  };
  const auto run_tiles = [&](std::int64_t begin, std::int64_t end) {
    Scratch<C> scratch(static_cast<std::int64_t>(K + 1) * n * tile);
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t outer = t / tiles_across, column = t % tiles_across * tile;
      const std::int64_t width = std::min(tile, s.inner - column);
      C* buffers[K + 1];
      for (std::size_t k = 0; k <= K; ++k)
        buffers[k] = scratch.data() + static_cast<std::int64_t>(k) * n * tile;
      for (std::size_t k = 0; k < K; ++k)
        detail::gather_lines(readers[k], s, outer, column, width, buffers[k]);
      for (std::int64_t i = 0; i < width; ++i) {
        const C* values[K];
        for (std::size_t k = 0; k < K; ++k) values[k] = buffers[k] + i * n;
        f(values, buffers[K] + i * n, n);
      }
      detail::scatter_lines(buffers[K], s, outer, column, width, writer);
    }
  };
  const std::int64_t per_panel = std::max<std::int64_t>(1, kLinePanel / (n * tile));
  const double task_ns = element_ns * static_cast<double>(n * tile);
  if (s.inner == 1)
    parallel_chunks(s.outer, per_panel, run_rows, task_ns);
  else
    parallel_chunks(s.outer * tiles_across, per_panel, run_tiles, task_ns);
}

}  // namespace mezzo::cpu_kernels
