// Tensors [N, C, ...] as runs of elements that share their coefficients, with the elementwise maps
// and sums that batch, group and instance norm use.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>
#include <vector>

#include "../core/macros.h"
#include "../device/parallel.h"
#include "block_io.h"
#include "fold.h"
#include "gradient_sums.h"
#include "order.h"

namespace mezzo::cpu_kernels {

/** The sizes [N, C, inner] of a tensor. A run is the `inner` elements of one sample and channel. */
struct ChannelShape {
  std::int64_t samples = 0, channels = 0, inner = 1;
  explicit ChannelShape(const Shape& x) : samples(x[0]), channels(x[1]) {
    for (int i = 2; i < x.rank(); ++i) inner *= x[i];
  }
  std::int64_t runs() const { return samples * channels; }
};

/** Returns the values of an optional per-channel operand; all are `absent` if it is undefined. */
template <class C> std::vector<C> channel_values(const Tensor& x, std::int64_t channels, C absent) {
  std::vector<C> values(static_cast<std::size_t>(channels), absent);
  if (!x.defined()) return values;
  const Tensor row = row_major(x);
  convert(row.dtype(), row.raw_data(), dtype_of<C>(), values.data(), channels);
  return values;
}

/** Computes y[e] = f(in[0][e], ..., i) for every element, where i = (the number of its run) %
 *  period selects the coefficients. All tensors are in the order of `s`. */
template <class C, std::size_t K, class F>
void map_runs(const std::array<Tensor, K>& in, Tensor& out, const ChannelShape& s,
              std::int64_t period, F&& f) {
  const auto readers = [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<BlockReader<C>, K>{BlockReader<C>(in[I])...};
  }
  (std::make_index_sequence<K>{});
  const BlockWriter<C> writer(out);
  constexpr std::int64_t kPiece = 1024;
  constexpr auto operands = std::make_index_sequence<K>{};
  const auto piece = [&](std::int64_t at, std::int64_t n) {
    alignas(64) C values[K][kPiece], results[kPiece];
    const C* x[K];
    for (std::size_t k = 0; k < K; ++k) x[k] = readers[k].read(at, n, values[k]);
    C* y = writer.target(at, results);
    // A copy, which no store to y can change; otherwise the loops below are not vectorised.
    const std::remove_cvref_t<F> function = f;
    const auto value_at = [&function]<std::size_t... I>(const C* const* from, std::int64_t k,
                                                        std::int64_t i, std::index_sequence<I...>) {
      return function(from[I][k]..., i);
    };
    for (std::int64_t k = 0; k < n;) {
      if (s.inner == 1) {
        const std::int64_t first = (at + k) % period, count = std::min(n - k, period - first);
        MZ_INDEPENDENT_LOOP
        for (std::int64_t j = 0; j < count; ++j) y[k + j] = value_at(x, k + j, first + j, operands);
        k += count;
      } else {
        const std::int64_t run = (at + k) / s.inner, end = std::min(n, (run + 1) * s.inner - at);
        const std::int64_t i = run % period;
        MZ_INDEPENDENT_LOOP
        for (std::int64_t j = k; j < end; ++j) y[j] = value_at(x, j, i, operands);
        k = end;
      }
    }
    writer.write(at, n, y);
  };
  parallel_chunks(
      s.runs() * s.inner, kElementwiseChunk,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t at = begin; at < end; at += kPiece) piece(at, std::min(kPiece, end - at));
      },
      0.3);
}

/** Sums `count` rows into the first one, pairwise in order. */
template <class T> void add_rows_pairwise(T* rows, std::int64_t count, std::int64_t width) {
  for (std::int64_t step = 1; step < count; step *= 2)
    for (std::int64_t r = 0; r + step < count; r += 2 * step)
      for (std::int64_t i = 0; i < width; ++i)
        rows[r * width + i] = rows[r * width + i] + rows[(r + step) * width + i];
}

/** A gate that returns g unchanged. A gate maps g to gate(g, x, i) before it is summed, where i is
 *  the index of the coefficients. */
struct NoGate {
  template <class C> C operator()(C g, C, std::int64_t) const { return g; }
};

/** Returns n elements of g after the gate, in `room` if the gate changes them; coefficient(j) is
 *  the coefficient index of element j. */
template <class C, class Gate, class Coefficient>
const C* gated(const Gate& gate, const C* g, const C* x, std::int64_t n, C* room,
               const Coefficient& coefficient) {
  if constexpr (std::is_same_v<Gate, NoGate>) return g;
  MZ_INDEPENDENT_LOOP
  for (std::int64_t j = 0; j < n; ++j) room[j] = gate(g[j], x[j], coefficient(j));
  return room;
}

/** Computes the sums of each run; mean[run % period] is subtracted from x. */
template <class C, class Gate = NoGate>
void run_sums(const Tensor& g, const Tensor& x, const ChannelShape& s, const C* mean,
              std::int64_t period, GradientSums<C>* sums, const Gate& gate = {}) {
  const BlockReader<C> g_reader(g), x_reader(x);
  constexpr std::int64_t kPiece = 2048;
  const auto one_run = [&](std::int64_t run) {
    alignas(64) C g_buffer[kPiece], x_buffer[kPiece], product[kPiece], room[kPiece];
    const C m = mean[run % period];
    GradientSums<C> total;
    for (std::int64_t k = 0; k < s.inner; k += kPiece) {
      const std::int64_t n = std::min(kPiece, s.inner - k);
      const C* xv = x_reader.read(run * s.inner + k, n, x_buffer);
      const C* gv = gated(gate, g_reader.read(run * s.inner + k, n, g_buffer), xv, n, room,
                          [&](std::int64_t) { return run % period; });
      for (std::int64_t j = 0; j < n; ++j) product[j] = gv[j] * (xv[j] - m);
      total = total + GradientSums<C>{fold_row(gv, n, C(0), kPlus, kPlus),
                                      fold_row(product, n, C(0), kPlus, kPlus)};
    }
    sums[run] = total;
  };
  const std::int64_t runs_per_panel = std::max<std::int64_t>(1, kElementwiseChunk / s.inner);
  parallel_chunks(
      s.runs(), runs_per_panel,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t run = begin; run < end; ++run) one_run(run);
      },
      0.5 * static_cast<double>(s.inner));
}

/** Computes the sums of each channel of a tensor [N, C]. */
template <class C, class Gate = NoGate>
void column_sums(const Tensor& g, const Tensor& x, const ChannelShape& s, const C* mean,
                 GradientSums<C>* sums, const Gate& gate = {}) {
  const BlockReader<C> g_reader(g), x_reader(x);
  constexpr std::int64_t kRows = 64;
  const std::int64_t chunks = (s.samples + kRows - 1) / kRows,
                     blocks = (s.channels + kMaxColumns - 1) / kMaxColumns;
  const auto partial = std::make_unique_for_overwrite<GradientSums<C>[]>(
      static_cast<std::size_t>(chunks * s.channels));
  const auto chunk = [&](std::int64_t task) {
    const std::int64_t row = task / blocks * kRows, column = task % blocks * kMaxColumns;
    const std::int64_t width = std::min(kMaxColumns, s.channels - column);
    alignas(64) C g_buffer[kMaxColumns], x_buffer[kMaxColumns], room[kMaxColumns],
        total_g[kMaxColumns] = {}, total_gx[kMaxColumns] = {};
    for (std::int64_t r = row; r < std::min(row + kRows, s.samples); ++r) {
      const C* xv = x_reader.read(r * s.channels + column, width, x_buffer);
      const C* gv = gated(gate, g_reader.read(r * s.channels + column, width, g_buffer), xv, width,
                          room, [&](std::int64_t j) { return column + j; });
      for (std::int64_t j = 0; j < width; ++j) {
        total_g[j] += gv[j];
        total_gx[j] += gv[j] * (xv[j] - mean[column + j]);
      }
    }
    GradientSums<C>* to = partial.get() + task / blocks * s.channels + column;
    for (std::int64_t j = 0; j < width; ++j) to[j] = {total_g[j], total_gx[j]};
  };
  parallel_for(chunks * blocks, chunk, 0.5 * static_cast<double>(s.runs()));
  add_rows_pairwise(partial.get(), chunks, s.channels);
  std::copy(partial.get(), partial.get() + s.channels, sums);
}

}  // namespace mezzo::cpu_kernels
