// Device code of pooling: windows of any layout, and kernels over planes of at most two dimensions
// with fewer than 2^31 elements, in 32 bits.
#pragma once

#include <limits>

#include "../../../tensor/math/safe_sum.h"
#include "../../../tensor/ops/pool/pool_windows.h"
#include "../items.h"
#include "../lines.h"
#include "../triple.h"
#include "../typed.h"

namespace mezzo::gpu {

using op::PoolAttrs;
using op::PoolPositions;
using op::PoolRange;
using op::PoolSpan;

/** The planes of a pooling. Elements of one plane are `channels` apart, interleaved with those of
 *  the other channels' planes; `channels` is 1 for row-major arrays. */
struct Pooling {
  PoolAttrs attrs;
  Triple in, out;  // sizes of a plane of the input and of the output
  std::int64_t channels;
  std::int64_t results;  // elements of the result
  Spread spread;         // over results and their terms
};

/** Positions begin, begin + step, ... in each dimension. */
struct Box {
  Triple begin, count, step;

  /** Calls f(p) for each position of the thread `part` of `parts`, in row-major order. */
  template <class F> __device__ void for_each(int part, int parts, F&& f) const {
    if (parts > 1) {
      const std::int64_t n = count.count();
      for (std::int64_t i = part; i < n; i += parts) {
        Triple p = count.position(i);
#pragma unroll
        for (int d = 0; d < 3; ++d) p.at[d] = begin.at[d] + p.at[d] * step.at[d];
        f(p);
      }
      return;
    }
    Triple p;
    for (std::int64_t i = 0; i < count.at[0]; ++i) {
      p.at[0] = begin.at[0] + i * step.at[0];
      for (std::int64_t j = 0; j < count.at[1]; ++j) {
        p.at[1] = begin.at[1] + j * step.at[1];
        for (std::int64_t k = 0; k < count.at[2]; ++k) {
          p.at[2] = begin.at[2] + k * step.at[2];
          f(p);
        }
      }
    }
  }
};

/** Returns the elements of the window of output position `o`, and sets `counted` to the divisor of
 *  a mean. */
__device__ inline Box window_of(const Pooling& pool, const Triple& o, std::int64_t& counted) {
  Box box{};
  counted = 1;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    const PoolSpan span = op::pool_span(pool.attrs, d, pool.in.at[d], o.at[d]);
    const std::int64_t step =
        pool.attrs.adaptive ? 1 : pool.attrs.dilation[static_cast<std::size_t>(d)];
    box.begin.at[d] = span.begin;
    box.step.at[d] = step;
    box.count.at[d] = step == 1 ? span.end - span.begin : (span.end - span.begin + step - 1) / step;
    counted *= span.counted;
  }
  if (pool.attrs.divisor > 0) counted = pool.attrs.divisor;
  return box;
}

/** Returns the mean of a window whose sum overflowed. Not inlined: this is the slow way. */
template <class C>
__device__ __noinline__ C scaled_mean(const Pooling& pool, const Array& x, const Triple& position,
                                      std::int64_t base) {
  constexpr C kScale = static_cast<C>(0x1p-60);
  C sum = 0;
  std::int64_t counted = 1;
  window_of(pool, position, counted).for_each(0, 1, [&](const Triple& p) {
    sum += x.load<C>(base + pool.in.index(p) * pool.channels) * kScale;
  });
  return sum / static_cast<C>(counted) / kScale;
}

// ---- planes -------------------------------------------------------------------------------------

/** Returns at / dilation if that is whole, else `kernel`. Not inlined: this is the slow way. */
__device__ __noinline__ inline std::uint32_t dilated_tap(std::uint32_t at, std::uint32_t dilation,
                                                         std::uint32_t kernel) {
  return at % dilation == 0 ? at / dilation : kernel;
}

/** One dimension of the windows of a max pooling over at most two dimensions, in 32 bits. */
struct PlaneDim {
  std::uint32_t in, out, stride, kernel, dilation;
  std::int32_t padding, reach;  // the last position of a window minus its first

  /** Returns the first window that may contain position p, and the end of these windows. */
  __device__ std::uint32_t begin(std::uint32_t p) const {
    const std::int32_t first = static_cast<std::int32_t>(p) + padding - reach;
    return first <= 0 ? 0 : (static_cast<std::uint32_t>(first) + stride - 1) / stride;
  }
  __device__ std::uint32_t end(std::uint32_t p) const {
    const std::uint32_t reached = (p + static_cast<std::uint32_t>(padding)) / stride + 1;
    return reached < out ? reached : out;
  }
  /** Returns the position of p in window o, which contains it if there is no dilation, else
   *  kernel or more where it does not. */
  __device__ std::uint32_t tap(std::uint32_t p, std::uint32_t o) const {
    const std::uint32_t at = p + static_cast<std::uint32_t>(padding) - o * stride;
    return dilation == 1 ? at : dilated_tap(at, dilation, kernel);
  }
};

/** The elements of a window along one dimension that are inside the input. */
struct PlaneSpan {
  std::uint32_t tap, taps, at;  // number in the window of the first, end of these; its position

  __device__ PlaneSpan(const PlaneDim& dim, std::uint32_t o) {
    const std::int32_t first = static_cast<std::int32_t>(o * dim.stride) - dim.padding;
    const std::uint32_t before = first < 0 ? static_cast<std::uint32_t>(-first) : 0;
    tap = dim.dilation == 1 ? before : (before + dim.dilation - 1) / dim.dilation;
    at = static_cast<std::uint32_t>(first) + tap * dim.dilation;
    const std::uint32_t room = dim.in - at;  // at least 1
    const std::uint32_t left = dim.dilation == 1 ? room : (room - 1) / dim.dilation + 1;
    taps = tap + left < dim.kernel ? tap + left : dim.kernel;
  }
};

/** A max pooling with fewer than 2^31 elements. A unit is `width` adjacent elements of one
 *  position: channels of a channels-last array, else one element. */
struct PlanePooling {
  PlaneDim y, x;
  std::uint32_t units;  // per position
  std::uint32_t items;  // units of the result
};

/** The calling thread's unit of the result: its plane, row and position in the row. */
struct PlanePlace {
  std::uint32_t plane, y, x, unit;

  __device__ PlanePlace(const PlanePooling& pool, std::uint32_t item, std::uint32_t height,
                        std::uint32_t width) {
    const std::uint32_t place = item / pool.units, row = place / width;
    unit = item - place * pool.units;
    x = place - row * width;
    plane = row / height;
    y = row - plane * height;
  }
};

/** Replaces `best` and its place by a value that comes later, if it is greater or the first nan. */
__device__ inline void take_greater(float value, std::uint32_t place, float& best,
                                    std::uint32_t& best_place) {
  const bool better = !(value <= best) && best == best;
  best = better ? value : best;
  best_place = better ? place : best_place;
}

/** Loads a unit: a pack, or one element. */
template <int width, class T> __device__ void load_unit(const T* from, float (&values)[width]) {
  if constexpr (width == 1)
    values[0] = element_as<float>(*from);
  else
    load_values<width>(from, values);
}

template <int width, class T> __device__ void store_unit(T* to, const float (&values)[width]) {
  if constexpr (width == 1)
    *to = element_as<T>(values[0]);
  else
    store_values<width>(to, values);
}

/** Units of a window that a thread loads before it uses the first. */
inline constexpr std::uint32_t kPlaneLoads = 3;

/** Loads the first `count` of kPlaneLoads units, `step` elements apart. */
template <int width, class T>
__device__ void load_units(const T* from, std::uint32_t step, std::uint32_t count,
                           float (&values)[kPlaneLoads][width]) {
#pragma unroll
  for (std::uint32_t n = 0; n < kPlaneLoads; ++n) {
    if (n >= count) break;
    load_unit<width>(from + n * step, values[n]);
  }
}

/** max_kernel for elements of T in units of `width`: a pack, or 1. Positions of P: in the window in
 *  8 bits, else in the plane; or none. */
template <class T, int width, class P>
__global__ void __launch_bounds__(kItemThreads)
    plane_max_kernel(const PlanePooling __grid_constant__ pool, const T* x, T* y, P* positions) {
  constexpr bool kInWindow = sizeof(P) == 1;
  const std::uint32_t item = blockIdx.x * static_cast<std::uint32_t>(kItemThreads) + threadIdx.x;
  if (item >= pool.items) return;
  const PlanePlace to(pool, item, pool.y.out, pool.x.out);
  const PlaneSpan rows(pool.y, to.y), columns(pool.x, to.x);
  float best[width];
  std::uint32_t place[width];
  std::uint32_t at_y = rows.at;
#pragma unroll
  for (int k = 0; k < width; ++k) {
    best[k] = -std::numeric_limits<float>::infinity();
    place[k] = kInWindow ? rows.tap * pool.x.kernel + columns.tap : at_y * pool.x.in + columns.at;
  }
#pragma unroll 1
  for (std::uint32_t j = rows.tap; j < rows.taps; ++j, at_y += pool.y.dilation) {
    const std::uint32_t row = to.plane * pool.y.in + at_y;
#pragma unroll 1
    for (std::uint32_t i = columns.tap; i < columns.taps; i += kPlaneLoads) {
      const std::uint32_t at_x = columns.at + (i - columns.tap) * pool.x.dilation,
                          from = ((row * pool.x.in + at_x) * pool.units + to.unit) * width,
                          step = pool.x.dilation * pool.units * width;
      float values[kPlaneLoads][width];
      load_units<width>(x + from, step, columns.taps - i, values);
#pragma unroll
      for (std::uint32_t n = 0; n < kPlaneLoads; ++n) {
        if (i + n >= columns.taps) break;
        const std::uint32_t own =
            kInWindow ? j * pool.x.kernel + i + n : at_y * pool.x.in + at_x + n * pool.x.dilation;
#pragma unroll
        for (int k = 0; k < width; ++k) take_greater(values[n][k], own, best[k], place[k]);
      }
    }
  }
  const std::uint32_t at = item * width;
  store_unit<width>(y + at, best);
  if (!positions) return;
  if constexpr (width == 1) {
    positions[at] = static_cast<P>(place[0]);
  } else {
    if constexpr (kInWindow) {
      Pack<std::uint32_t, width / 4> words;
#pragma unroll
      for (int w = 0; w < width / 4; ++w)
        words.item[w] =
            place[4 * w] | place[4 * w + 1] << 8 | place[4 * w + 2] << 16 | place[4 * w + 3] << 24;
      *reinterpret_cast<Pack<std::uint32_t, width / 4>*>(positions + at) = words;
    } else {
#pragma unroll
      for (int k = 0; k < width; k += 2)
        store_words(positions + at + k, PackWords{{place[k], 0, place[k + 1], 0}});
    }
  }
}

/** Loads the positions of the elements of a unit. */
template <int width, class P>
__device__ inline void load_positions(const P* from, std::uint32_t* positions) {
  if constexpr (width == 1) {
    positions[0] = static_cast<std::uint32_t>(*from);
  } else if constexpr (sizeof(P) == 1) {
    const auto words = *reinterpret_cast<const Pack<std::uint32_t, width / 4>*>(from);
#pragma unroll
    for (int k = 0; k < width; ++k) positions[k] = words.item[k / 4] >> k % 4 * 8 & 0xFF;
  } else {
#pragma unroll
    for (int k = 0; k < width; k += 2) {  // two positions are a pack
      const PackWords two = *reinterpret_cast<const PackWords*>(from + k);
      positions[k] = two.item[0];
      positions[k + 1] = two.item[2];
    }
  }
}

/** max_backward_kernel for elements of T in units of `width`: a pack, or 1. Positions as in
 *  plane_max_kernel. */
template <class T, int width, class P>
__global__ void __launch_bounds__(kItemThreads)
    plane_max_backward_kernel(const PlanePooling __grid_constant__ pool, const T* g,
                              const P* positions, T* gx) {
  constexpr bool kInWindow = sizeof(P) == 1;
  const std::uint32_t item = blockIdx.x * static_cast<std::uint32_t>(kItemThreads) + threadIdx.x;
  if (item >= pool.items) return;
  const PlanePlace to(pool, item, pool.y.in, pool.x.in);
  const std::uint32_t first_x = pool.x.begin(to.x), last_x = pool.x.end(to.x),
                      last_y = pool.y.end(to.y);
  float sum[width] = {};
  for (std::uint32_t j = pool.y.begin(to.y); j < last_y; ++j) {
    const std::uint32_t tap_y = pool.y.tap(to.y, j);
    if (kInWindow && tap_y >= pool.y.kernel) continue;
    for (std::uint32_t i = first_x; i < last_x; ++i) {
      std::uint32_t own = to.y * pool.x.in + to.x;
      if constexpr (kInWindow) {
        const std::uint32_t tap_x = pool.x.tap(to.x, i);
        if (tap_x >= pool.x.kernel) continue;
        own = tap_y * pool.x.kernel + tap_x;
      }
      const std::uint32_t at =
          (((to.plane * pool.y.out + j) * pool.x.out + i) * pool.units + to.unit) * width;
      float values[width];
      std::uint32_t places[width];
      load_unit<width>(g + at, values);
      load_positions<width>(positions + at, places);
#pragma unroll
      for (int k = 0; k < width; ++k)
        if (places[k] == own) sum[k] += values[k];
    }
  }
  store_unit<width>(gx + item * static_cast<std::uint32_t>(width), sum);
}

// ---- means --------------------------------------------------------------------------------------

/** A mean pooling of planes. */
struct PlaneMeans : PlanePooling {
  std::uint32_t divisor;  // 0: the number of elements of a window
  bool count_padding;

  /** Returns the elements of window o along one dimension that the mean counts. */
  __device__ std::uint32_t counted(const PlaneDim& dim, std::uint32_t o) const {
    const std::int32_t first = static_cast<std::int32_t>(o * dim.stride) - dim.padding,
                       in = static_cast<std::int32_t>(dim.in),
                       end = first + static_cast<std::int32_t>(dim.kernel),
                       last = count_padding ? in + dim.padding : in,
                       begin = count_padding || first > 0 ? first : 0;
    return static_cast<std::uint32_t>((end < last ? end : last) - begin);
  }
};

/** mean_kernel for elements of T in units of `width`. Elements are added in the same order. */
template <class T, int width>
__global__ void __launch_bounds__(kItemThreads)
    plane_mean_kernel(const PlaneMeans __grid_constant__ pool,
                      const Pooling __grid_constant__ generic, const T* x, T* y,
                      const Array from_x) {
  const std::uint32_t item = blockIdx.x * static_cast<std::uint32_t>(kItemThreads) + threadIdx.x;
  if (item >= pool.items) return;
  const PlanePlace to(pool, item, pool.y.out, pool.x.out);
  const PlaneSpan rows(pool.y, to.y), columns(pool.x, to.x);
  float sum[width] = {};
  std::uint32_t row = to.plane * pool.y.in + rows.at;
#pragma unroll 1
  for (std::uint32_t j = rows.tap; j < rows.taps; ++j, ++row) {
#pragma unroll 1
    for (std::uint32_t i = columns.tap; i < columns.taps; i += kPlaneLoads) {
      const std::uint32_t at_x = columns.at + i - columns.tap,
                          from = ((row * pool.x.in + at_x) * pool.units + to.unit) * width,
                          step = pool.units * width;
      float values[kPlaneLoads][width];
      load_units<width>(x + from, step, columns.taps - i, values);
#pragma unroll
      for (std::uint32_t n = 0; n < kPlaneLoads; ++n) {
        if (i + n >= columns.taps) break;
#pragma unroll
        for (int k = 0; k < width; ++k) sum[k] += values[n][k];
      }
    }
  }
  const std::uint32_t all =
      pool.divisor > 0 ? pool.divisor : pool.counted(pool.y, to.y) * pool.counted(pool.x, to.x);
#pragma unroll
  for (int k = 0; k < width; ++k) {
    const std::int64_t base =
        to.plane * generic.in.count() * generic.channels + to.unit * width + k;
    sum[k] = math::is_finite(sum[k])
                 ? sum[k] / static_cast<float>(all)
                 : scaled_mean<float>(generic, from_x, Triple{{0, to.y, to.x}}, base);
  }
  store_unit<width>(y + item * static_cast<std::uint32_t>(width), sum);
}

/** mean_backward_kernel for elements of T in units of `width`. */
template <class T, int width>
__global__ void __launch_bounds__(kItemThreads)
    plane_mean_backward_kernel(const PlaneMeans __grid_constant__ pool, const T* g, T* gx) {
  const std::uint32_t item = blockIdx.x * static_cast<std::uint32_t>(kItemThreads) + threadIdx.x;
  if (item >= pool.items) return;
  const PlanePlace to(pool, item, pool.y.in, pool.x.in);
  const std::uint32_t last_x = pool.x.end(to.x), last_y = pool.y.end(to.y);
  float sum[width] = {};
  for (std::uint32_t j = pool.y.begin(to.y); j < last_y; ++j) {
    const std::uint32_t of_column = pool.counted(pool.y, j);
    for (std::uint32_t i = pool.x.begin(to.x); i < last_x; ++i) {
      const std::uint32_t at =
          (((to.plane * pool.y.out + j) * pool.x.out + i) * pool.units + to.unit) * width;
      float values[width];
      load_unit<width>(g + at, values);
      const std::uint32_t all =
          pool.divisor > 0 ? pool.divisor : of_column * pool.counted(pool.x, i);
      const auto count = static_cast<float>(all);
      if ((all & (all - 1)) == 0) {  // the same, without a division
        const float share = 1.0f / count;
#pragma unroll
        for (int k = 0; k < width; ++k) sum[k] += values[k] * share;
      } else {
#pragma unroll
        for (int k = 0; k < width; ++k) sum[k] += values[k] / count;
      }
    }
  }
  store_unit<width>(gx + item * static_cast<std::uint32_t>(width), sum);
}

// ---- windows of 2 x 2, side by side -------------------------------------------------------------

/** Pairs of row-major planes of even sizes: windows of 2 x 2 that cover the input, side by side.
 *  Two elements are a word, of which a window has two. A thread has one column of kPairRows rows of
 *  windows. */
inline constexpr std::uint32_t kPairRows = 4;
struct PairPooling {
  std::uint32_t rows, width;  // windows: rows of all planes, windows of a row
  std::uint32_t items() const { return (rows + kPairRows - 1) / kPairRows * width; }
};

/** Two adjacent elements, or two positions in their windows. */
template <class T> struct alignas(2 * sizeof(T)) Two {
  T first, second;
};

template <class T>
__global__ void __launch_bounds__(kItemThreads)
    pair_max_kernel(const PairPooling __grid_constant__ pool, const Two<T>* x, T* y,
                    std::uint8_t* positions) {
  const std::uint32_t item = blockIdx.x * static_cast<std::uint32_t>(kItemThreads) + threadIdx.x;
  const std::uint32_t group = item / pool.width, column = item - group * pool.width,
                      first = group * kPairRows;
  Two<T> words[kPairRows][2] = {};
#pragma unroll
  for (std::uint32_t r = 0; r < kPairRows; ++r) {
    if (first + r >= pool.rows) break;
    const std::uint32_t at = 2 * (first + r) * pool.width + column;
    words[r][0] = x[at];
    words[r][1] = x[at + pool.width];
  }
#pragma unroll
  for (std::uint32_t r = 0; r < kPairRows; ++r) {
    if (first + r >= pool.rows) break;
    float best = element_as<float>(words[r][0].first);
    std::uint32_t place = 0;
    take_greater(element_as<float>(words[r][0].second), 1, best, place);
    take_greater(element_as<float>(words[r][1].first), 2, best, place);
    take_greater(element_as<float>(words[r][1].second), 3, best, place);
    const std::uint32_t at = (first + r) * pool.width + column;
    y[at] = element_as<T>(best);
    if (positions) positions[at] = static_cast<std::uint8_t>(place);
  }
}

template <class T>
__global__ void __launch_bounds__(kItemThreads)
    pair_max_backward_kernel(const PairPooling __grid_constant__ pool, const T* g,
                             const std::uint8_t* positions, Two<T>* gx) {
  const std::uint32_t item = blockIdx.x * static_cast<std::uint32_t>(kItemThreads) + threadIdx.x;
  const std::uint32_t group = item / pool.width, column = item - group * pool.width,
                      first = group * kPairRows;
  T values[kPairRows] = {};
  std::uint32_t places[kPairRows] = {};
#pragma unroll
  for (std::uint32_t r = 0; r < kPairRows; ++r) {
    if (first + r >= pool.rows) break;
    const std::uint32_t at = (first + r) * pool.width + column;
    values[r] = g[at];
    places[r] = positions[at];
  }
#pragma unroll
  for (std::uint32_t r = 0; r < kPairRows; ++r) {
    if (first + r >= pool.rows) break;
    const std::uint32_t at = 2 * (first + r) * pool.width + column;
    // 0 + g, as the other kernels: -0 becomes 0
    const T value = element_as<T>(element_as<float>(values[r]) + 0.0f), zero{};
#pragma unroll
    for (std::uint32_t low = 0; low < 2; ++low)
      gx[at + low * pool.width] = {places[r] == 2 * low ? value : zero,
                                   places[r] == 2 * low + 1 ? value : zero};
  }
}

}  // namespace mezzo::gpu
