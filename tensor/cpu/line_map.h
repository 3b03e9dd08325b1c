// map_lines: runs a function over each line of tensors along one dimension, with the line's
// elements contiguous, or with many lines interleaved.
#pragma once

#include <array>

#include "../device/parallel.h"
#include "block_io.h"
#include "transpose.h"

namespace mezzo::cpu_kernels {

/** A row-major tensor as [outer][length][inner], with lines along `length`. */
struct LineShape {
  std::int64_t outer = 1, length = 1, inner = 1;
  LineShape(const Shape& shape, int dim) {
    for (int i = 0; i < shape.rank(); ++i)
      (i < dim ? outer : i == dim ? length : inner) *= shape[i];
  }
  std::int64_t count() const { return outer * inner; }
};

/** Approximate number of elements in one thread's share of lines. */
inline constexpr std::int64_t kLinePanel = 16384;

/** Number of strided lines that are gathered at a time: one cache line of each row. */
inline constexpr std::int64_t kLineTile = 16;

namespace detail {

/** Gathers `width` lines from (outer, column) on; line i is contiguous at to + i * length. */
template <class C>
void gather_lines(const BlockReader<C>& x, const LineShape& s, std::int64_t outer,
                  std::int64_t column, std::int64_t width, C* to) {
  C row[kLineTile];
  for (std::int64_t r = 0; r < s.length; ++r) {
    const C* from = x.read((outer * s.length + r) * s.inner + column, width, row);
    for (std::int64_t i = 0; i < width; ++i) to[i * s.length + r] = from[i];
  }
}

/** Writes lines that are contiguous in `from` back to their strided places. */
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

/** Calls f(in, out, n) for each line, where in[k] and out point to n contiguous values of the line.
 *  `in` are row-major tensors of out's shape. Results depend neither on the position of the
 *  dimension nor on threads. */
template <class C, std::size_t K, class F>
void map_lines(const std::array<Tensor, K>& in, Tensor& out, int dim, F&& f, double element_ns) {
  if (out.numel() == 0) return;
  const LineShape s(out.shape(), dim);
  const auto readers = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<BlockReader<C>, K>{BlockReader<C>(in[I])...};
  }(std::make_index_sequence<K>{});
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

/** Maximum number of lines per call of a function over columns. */
inline constexpr std::int64_t kLineColumns = 64;

/** Lines up to this length are transposed and then processed in parallel. */
inline constexpr std::int64_t kShortLine = 128;

namespace detail {

/** Runs columns(in, out, n, stride, width) on buffers [n][kLineColumns] that bring(k, buffer) fills
 *  and take(buffer) stores. */
template <class C, std::size_t K, class F, class Bring, class Take>
void run_columns(C* buffers, std::int64_t n, std::int64_t width, F& columns, Bring bring,
                 Take take) {
  const C* in[K];
  C* out = buffers + static_cast<std::int64_t>(K) * n * kLineColumns;
  for (std::size_t k = 0; k < K; ++k) {
    C* buffer = buffers + static_cast<std::int64_t>(k) * n * kLineColumns;
    bring(k, buffer);
    in[k] = buffer;
  }
  columns(in, out, n, kLineColumns, width);
  take(out);
}

}  // namespace detail

/** Like map_lines, but calls `columns` where vectors across lines are faster: for strided lines and
 *  short ones. columns(in, out, n, stride, width) processes `width` <= kLineColumns lines at once;
 *  element i of line j is at [i * stride + j]. The choice between the two functions depends on the
 *  shape alone. */
template <class C, std::size_t K, class F, class G>
void map_lines_or_columns(const std::array<Tensor, K>& in, Tensor& out, int dim, F&& line,
                          G&& columns, double element_ns) {
  if (out.numel() == 0) return;
  const LineShape s(out.shape(), dim);
  const bool across = s.inner >= kLineTile, short_lines = s.inner == 1 && s.length <= kShortLine;
  if (!across && !short_lines) return map_lines<C, K>(in, out, dim, line, element_ns);
  const auto readers = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<BlockReader<C>, K>{BlockReader<C>(in[I])...};
  }(std::make_index_sequence<K>{});
  const BlockWriter<C> writer(out);
  bool direct = writer.direct();
  for (const BlockReader<C>& r : readers) direct = direct && r.direct();
  const std::int64_t n = s.length, lines = across ? s.inner : s.outer;
  const std::int64_t tiles_across = (lines + kLineColumns - 1) / kLineColumns;

  const auto run_across = [&](std::int64_t begin, std::int64_t end) {
    Scratch<C> scratch(direct ? 0 : static_cast<std::int64_t>(K + 1) * n * kLineColumns);
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t column = t % tiles_across * kLineColumns,
                         width = std::min(kLineColumns, lines - column);
      const std::int64_t at = t / tiles_across * n * s.inner + column;
      if (direct) {
        const C* values[K];
        for (std::size_t k = 0; k < K; ++k) values[k] = readers[k].read(at, 0, nullptr);
        columns(values, writer.target(at, nullptr), n, s.inner, width);
        continue;
      }
      const auto bring = [&](std::size_t k, C* to) {
        for (std::int64_t i = 0; i < n; ++i)
          readers[k].read(at + i * s.inner, width, to + i * kLineColumns);
      };
      detail::run_columns<C, K>(scratch.data(), n, width, columns, bring, [&](const C* from) {
        for (std::int64_t i = 0; i < n; ++i)
          writer.copy(at + i * s.inner, width, from + i * kLineColumns);
      });
    }
  };
  const auto run_short = [&](std::int64_t begin, std::int64_t end) {
    Scratch<C> scratch(static_cast<std::int64_t>(K + 2) * n * kLineColumns);
    C* rows = scratch.data() + static_cast<std::int64_t>(K + 1) * n * kLineColumns;
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t first = t * kLineColumns, width = std::min(kLineColumns, lines - first);
      const auto bring = [&](std::size_t k, C* to) {
        transpose(readers[k].read(first * n, width * n, rows), n, to, kLineColumns, width, n);
      };
      detail::run_columns<C, K>(scratch.data(), n, width, columns, bring, [&](const C* from) {
        C* to = writer.target(first * n, rows);
        transpose(from, kLineColumns, to, n, n, width);
        writer.write(first * n, width * n, to);
      });
    }
  };
  const std::int64_t tile = n * kLineColumns;
  const std::int64_t per_panel = std::max<std::int64_t>(1, kLinePanel / tile);
  const double task_ns = element_ns * static_cast<double>(tile);
  if (across)
    parallel_chunks(s.outer * tiles_across, per_panel, run_across, task_ns);
  else
    parallel_chunks(tiles_across, per_panel, run_short, task_ns);
}

}  // namespace mezzo::cpu_kernels
