// Tensors [N, C, ...] as runs of elements that share their coefficients, with the elementwise maps
// and sums that batch, group and instance norm use.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "../core/macros.h"
#include "../device/parallel.h"
#include "../ops/norm/batch_norm.h"
#include "../ops/norm/gradient_sums_cpu.h"
#include "block_io.h"
#include "fold.h"
#include "simd.h"

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

// The functions of these loops have coefficients for each channel. f.at<L>(c) returns the function
// of one value of channel c (L = Single), of a vector of values of that channel (L = Spread), or of
// a vector of values of the channels from c on (L = Simd). It loads its coefficients by L::load.

/** One value, with the operations of Simd. */
template <class T> struct Single {
  using V = T;
  static constexpr int kWidth = 1;
  template <class X> static V load(const X* p) { return static_cast<T>(*p); }
  static void store(T* p, V v) { *p = v; }
};

/** A vector of values that share their coefficients. */
template <class T> struct Spread {
  using V = typename Simd<T>::V;
  static V load(const T* p) { return Simd<T>::splat(*p); }
};

/** Reads elements of storage type X as C or, in place, as X. */
template <class C, class X> class RunReader {
 public:
  explicit RunReader(const Tensor& x) : reader_(x) {}
  /** Returns n elements from `at` on, in `buffer` if they need conversion. */
  const X* read(std::int64_t at, std::int64_t n, C* buffer) const {
    if constexpr (std::is_same_v<X, C>)
      return reader_.read(at, n, buffer);
    else
      return reader_.template in_place<X>(at);
  }

 private:
  BlockReader<C> reader_;
};

/** Positions of rows in a piece. */
struct RowRange {
  std::int64_t begin, end;
};

/** Returns how many of the rows of a piece are computed column by column, with coefficients loaded
 *  once. This is faster for 16-bit elements. Rows of larger ones are read and written in the order
 *  of memory, in which the CPU prefetches. */
template <class C, class X> constexpr std::int64_t rows_in_turn(std::int64_t rows) {
  return std::is_same_v<C, X> ? 1 : rows;
}

/** Calls visit with the type as which all tensors are read: bf16 in place, others as C. */
template <class C, std::size_t K, class Visit>
void visit_read_type(const std::array<Tensor, K>& tensors, const Visit& visit) {
  if constexpr (std::is_same_v<C, float>)
    if (std::all_of(tensors.begin(), tensors.end(),
                    [](const Tensor& x) { return x.dtype() == DType::bf16; }))
      return visit(std::type_identity<BFloat16>{});
  visit(std::type_identity<C>{});
}

/** Computes y = f(in[0], ...) for each element of tensors of K operands. All are in the order of
 *  `shape`. */
template <class C, class X, std::size_t K, class F> class RunMap {
 public:
  RunMap(const std::array<Tensor, K>& in, const Tensor& out, const ChannelShape& shape, const F& f)
      : RunMap(in, out, shape, f, kOperands) {}

  void run() const {
    if (shape_.inner == 1)
      parallel_chunks(
          shape_.samples, std::max<std::int64_t>(1, kElementwiseChunk / shape_.channels),
          [&](std::int64_t begin, std::int64_t end) { map_samples(begin, end); },
          0.3 * static_cast<double>(shape_.channels));
    else
      parallel_chunks(
          shape_.runs() * shape_.inner, kElementwiseChunk,
          [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t at = begin; at < end; at += kPiece)
              map_runs(at, std::min(kPiece, end - at));
          },
          0.3);
  }

 private:
  static constexpr std::int64_t kPiece = 1024;
  static constexpr auto kOperands = std::make_index_sequence<K>{};

  template <std::size_t... I>
  RunMap(const std::array<Tensor, K>& in, const Tensor& out, const ChannelShape& shape, const F& f,
         std::index_sequence<I...>)
      : in_{RunReader<C, X>(in[I])...}, out_(out), shape_(shape), f_(f) {}

  /** Calls body(operands, y) for n elements from `at` on, and stores y. */
  template <class Body> void piece(std::int64_t at, std::int64_t n, const Body& body) const {
    alignas(64) C values[K][kPiece], results[kPiece];
    std::array<const X*, K> x;
    for (std::size_t k = 0; k < K; ++k) x[k] = in_[k].read(at, n, values[k]);
    C* const y = out_.target(at, results);
    body(x, y);
    out_.write(at, n, y);
  }

  /** Maps samples of one value per channel, several together or parts of one. */
  void map_samples(std::int64_t begin, std::int64_t end) const {
    const std::int64_t channels = shape_.channels, width = std::min(channels, kPiece),
                       together = kPiece / width;
    for (std::int64_t r = begin; r < end; r += width == channels ? together : 1) {
      const std::int64_t rows = width == channels ? std::min(together, end - r) : 1;
      for (std::int64_t c = 0; c < channels; c += width) {
        const std::int64_t count = std::min(width, channels - c);
        piece(r * channels + c, rows * count, [&](const std::array<const X*, K>& x, C* y) {
          const std::int64_t step = rows_in_turn<C, X>(rows);
          for (std::int64_t row = 0; row < rows; row += step) {
            const RowRange at{row * count, (row + step) * count};
            std::int64_t j = 0;
            for (; j + Simd<C>::kWidth <= count; j += Simd<C>::kWidth)
              map_column<Simd<C>>(x, y, at, count, c, j, kOperands);
            for (; j < count; ++j) map_column<Single<C>>(x, y, at, count, c, j, kOperands);
          }
        });
      }
    }
  }

  /** Maps columns j, j + 1, ... of rows of `width` values; column 0 is that of channel c. */
  template <class L, std::size_t... I>
  void map_column(const std::array<const X*, K>& x, C* y, RowRange rows, std::int64_t width,
                  std::int64_t c, std::int64_t j, std::index_sequence<I...>) const {
    const auto function = f_.template at<L>(c + j);
    for (std::int64_t at = rows.begin + j; at < rows.end; at += width)
      L::store(y + at, function(L::load(x[I] + at)...));
  }

  void map_runs(std::int64_t at, std::int64_t n) const {
    piece(at, n, [&](const std::array<const X*, K>& x, C* y) {
      for (std::int64_t k = 0; k < n;) {
        const std::int64_t run = (at + k) / shape_.inner,
                           end = std::min(n, (run + 1) * shape_.inner - at);
        map_run(x, y, k, end, run % shape_.channels, kOperands);
        k = end;
      }
    });
  }

  template <std::size_t... I>
  void map_run(const std::array<const X*, K>& x, C* y, std::int64_t begin, std::int64_t end,
               std::int64_t c, std::index_sequence<I...>) const {
    using S = Simd<C>;
    const auto of_vector = f_.template at<Spread<C>>(c);
    std::int64_t j = begin;
    for (; j + S::kWidth <= end; j += S::kWidth) S::store(y + j, of_vector(S::load(x[I] + j)...));
    if (const std::int64_t rest = end - j; rest > 0)
      S::store_first(y + j, of_vector(S::load_first(x[I] + j, rest)...), rest);
  }

  std::array<RunReader<C, X>, K> in_;
  BlockWriter<C> out_;
  ChannelShape shape_;
  F f_;
};

/** The type as which elements of type T are read: bf16 in place, others as C. */
template <class C, class T>
using ReadType =
    std::conditional_t<std::is_same_v<C, float> && std::is_same_v<T, BFloat16>, BFloat16, C>;

/** Computes y = f(in[0], ...) for each element: f.at<L>(channel) as above. All tensors are in the
 *  order of `shape`; operands are read as X, a ReadType of C. */
template <class X, class C, std::size_t K, class F>
void map_runs_read_as(const std::array<Tensor, K>& in, const Tensor& out, const ChannelShape& shape,
                      const F& f) {
  if (out.numel() == 0) return;  // the number of samples or channels may be huge, or 0
  RunMap<C, X, K, F>(in, out, shape, f).run();
}

/** The same for operands of any floating dtypes. */
template <class C, std::size_t K, class F>
void map_runs(const std::array<Tensor, K>& in, const Tensor& out, const ChannelShape& shape,
              const F& f) {
  visit_read_type<C>(
      in, [&]<class X>(std::type_identity<X>) { map_runs_read_as<X, C, K>(in, out, shape, f); });
}

/** Normalises values: (x - mean) * scale + shift. The arrays have one entry per channel. */
template <class C> struct Normalising {
  const C *mean, *scale, *shift;

  template <class L> auto at(std::int64_t c) const {
    return [m = L::load(mean + c), a = L::load(scale + c),
            b = L::load(shift + c)](typename L::V x) { return op::normalised(x, m, a, b); };
  }
};

/** Sums `count` rows into the first one, pairwise in order. */
template <class T> void add_rows_pairwise(T* rows, std::int64_t count, std::int64_t width) {
  for (std::int64_t step = 1; step < count; step *= 2)
    for (std::int64_t r = 0; r + step < count; r += 2 * step)
      for (std::int64_t i = 0; i < width; ++i)
        rows[r * width + i] = rows[r * width + i] + rows[(r + step) * width + i];
}

/** A gate that returns g unchanged. A gate maps g and x to what is summed instead of g. */
struct NoGate {
  template <class L> auto at(std::int64_t) const {
    return [](typename L::V g, typename L::V) { return g; };
  }
};

/** Returns the sums over n elements of a run of channel c, in the order of fold_row. */
template <int kLanes, class C, class X, class Gate>
GradientSums<C> sum_lanes(const X* g, const X* x, std::int64_t n, const C* mean, const Gate& gate,
                          std::int64_t c) {
  if constexpr (kLanes == 1) {
    const auto gated = gate.template at<Single<C>>(c);
    GradientSums<C> sums;
    for (std::int64_t i = 0; i < n; ++i) {
      const C value = static_cast<C>(x[i]), given = gated(static_cast<C>(g[i]), value);
      sums = sums + GradientSums<C>{given, given * (value - mean[c])};
    }
    return sums;
  } else {
    using S = Simd<C>;
    using V = typename S::V;
    V of_g[kLanes / S::kWidth] = {}, of_gx[kLanes / S::kWidth] = {};
    const V m = S::splat(mean[c]);
    const auto gated = gate.template at<Spread<C>>(c);
    detail::for_each_vector<kLanes, S::kWidth>(
        n, [&](int k, std::int64_t at, std::int64_t count) __attribute__((always_inline)) {
          const bool whole = count == S::kWidth;
          const V value = whole ? S::load(x + at) : S::load_first(x + at, count),
                  given = gated(whole ? S::load(g + at) : S::load_first(g + at, count), value);
          const V next_g = of_g[k] + given, next_gx = of_gx[k] + given * (value - m);
          of_g[k] = whole ? next_g : S::first_of(next_g, of_g[k], count);
          of_gx[k] = whole ? next_gx : S::first_of(next_gx, of_gx[k], count);
        });
    return {detail::sum_of<C>(of_g), detail::sum_of<C>(of_gx)};
  }
}

/** Computes the sums of each run; mean[channel] is subtracted from x. */
template <class C, class X, class Gate>
void run_sums(const Tensor& g, const Tensor& x, const ChannelShape& s, const C* mean,
              GradientSums<C>* sums, const Gate& gate) {
  const RunReader<C, X> g_reader(g), x_reader(x);
  constexpr std::int64_t kPiece = 2048;
  const auto one_run = [&](std::int64_t run) {
    alignas(64) C g_buffer[kPiece], x_buffer[kPiece];
    GradientSums<C> total;
    for (std::int64_t k = 0; k < s.inner; k += kPiece) {
      const std::int64_t n = std::min(kPiece, s.inner - k), at = run * s.inner + k;
      const X *gv = g_reader.read(at, n, g_buffer), *xv = x_reader.read(at, n, x_buffer);
      const auto sum = n >= 256  ? &sum_lanes<64, C, X, Gate>
                       : n >= 16 ? &sum_lanes<16, C, X, Gate>
                                 : &sum_lanes<1, C, X, Gate>;
      total = total + sum(gv, xv, n, mean, gate, run % s.channels);
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

/** Adds the rows' terms to the sums of columns j, j + 1, ... in the order of the rows. */
template <class L, class C, class X, class Gate>
void add_to_columns(const X* g, const X* x, RowRange rows, std::int64_t width, std::int64_t j,
                    const C* mean, const Gate& gate, C* total_g, C* total_gx) {
  const typename L::V m = L::load(mean + j);
  typename L::V of_g = L::load(total_g + j), of_gx = L::load(total_gx + j);
  for (std::int64_t at = rows.begin + j; at < rows.end; at += width) {
    const typename L::V value = L::load(x + at), given = gate(L::load(g + at), value);
    of_g += given;
    of_gx += given * (value - m);
  }
  L::store(total_g + j, of_g);
  L::store(total_gx + j, of_gx);
}

/** Computes the sums of each channel of a tensor [N, C]. */
template <class C, class X, class Gate>
void column_sums(const Tensor& g, const Tensor& x, const ChannelShape& s, const C* mean,
                 GradientSums<C>* sums, const Gate& gate) {
  const RunReader<C, X> g_reader(g), x_reader(x);
  constexpr std::int64_t kRows = 64, kPiece = 1024;
  const std::int64_t chunks = (s.samples + kRows - 1) / kRows,
                     blocks = (s.channels + kMaxColumns - 1) / kMaxColumns;
  // The rows of a block are contiguous if it is the only one.
  const std::int64_t together = blocks == 1 ? kPiece / s.channels : 1;
  const auto partial = std::make_unique_for_overwrite<GradientSums<C>[]>(
      static_cast<std::size_t>(chunks * s.channels));
  const auto chunk = [&](std::int64_t task) {
    const std::int64_t row = task / blocks * kRows, column = task % blocks * kMaxColumns;
    const std::int64_t width = std::min(kMaxColumns, s.channels - column),
                       end = std::min(row + kRows, s.samples);
    alignas(64) C g_buffer[kPiece], x_buffer[kPiece], total_g[kMaxColumns] = {},
                                                      total_gx[kMaxColumns] = {};
    for (std::int64_t r = row; r < end; r += together) {
      const std::int64_t rows = std::min(together, end - r), at = r * s.channels + column;
      const X *gv = g_reader.read(at, rows * width, g_buffer),
              *xv = x_reader.read(at, rows * width, x_buffer);
      const std::int64_t step = rows_in_turn<C, X>(rows);
      for (std::int64_t i = 0; i < rows; i += step) {
        const RowRange of_rows{i * width, (i + step) * width};
        const auto add = [&]<class L>(std::type_identity<L>, std::int64_t j) {
          add_to_columns<L>(gv, xv, of_rows, width, j, mean + column,
                            gate.template at<L>(column + j), total_g, total_gx);
        };
        std::int64_t j = 0;
        for (; j + Simd<C>::kWidth <= width; j += Simd<C>::kWidth)
          add(std::type_identity<Simd<C>>{}, j);
        for (; j < width; ++j) add(std::type_identity<Single<C>>{}, j);
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
