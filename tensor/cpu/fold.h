// fold_row, fold_columns: reduce one chunk of memory along rows or columns, in an order that
// depends on the chunk's shape alone.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "order.h"
#ifndef __CUDACC__  // which does not know vectors
#  include "simd.h"
#endif

namespace mezzo::cpu_kernels {

namespace detail {

#ifndef __CUDACC__
/** Divides n elements among the vectors of kLanes lanes, in order: calls body(k, at, count) where
 *  vector k takes `count` elements from number `at` on. Only the last of a vector may have fewer
 * than kWidth. */
template <int kLanes, int kWidth, class Body>
[[gnu::always_inline]] inline void for_each_vector(std::int64_t n, const Body& body) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    MZ_UNROLL
    for (int k = 0; k < kLanes / kWidth; ++k) body(k, i + k * kWidth, std::int64_t{kWidth});
  }
  MZ_UNROLL
  for (int k = 0; k < kLanes / kWidth; ++k)
    if (const std::int64_t rest = n - i - k * kWidth; rest > 0)
      body(k, i + k * kWidth, std::min<std::int64_t>(rest, kWidth));
}

/** Returns the sum of all lanes of vectors, pairwise in the order of fold_lanes. */
template <class C, int kVectors> C sum_of(typename Simd<C>::V (&vectors)[kVectors]) {
  for (int half = kVectors / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) vectors[k] += vectors[k + half];
  return Simd<C>::sum(vectors[0]);
}

/** Whether fold_lanes computes in vectors, with the same bits. */
template <int kLanes, class C, class Step, class Combine> constexpr bool folds_vectors() {
  if constexpr (std::is_floating_point_v<C> && std::is_same_v<Combine, Plus>)
    return kLanes >= Simd<C>::kWidth &&
           std::is_invocable_v<Step, typename Simd<C>::V, typename Simd<C>::V>;
  return false;
}

/** fold_lanes in vectors. */
template <int kLanes, class C, class Step>
C fold_vectors(const C* x, std::int64_t n, C start, const Step& step) {
  using S = Simd<C>;
  typename S::V sums[kLanes / S::kWidth];
  for (auto& sum : sums) sum = S::splat(start);
  for_each_vector<kLanes, S::kWidth>(
      n, [&](int k, std::int64_t at, std::int64_t count) __attribute__((always_inline)) {
        sums[k] = count == S::kWidth
                      ? step(sums[k], S::load(x + at))
                      : S::first_of(step(sums[k], S::load_first(x + at, count)), sums[k], count);
      });
  return sum_of<C>(sums);
}
#endif

template <int kLanes, class C, class Step, class Combine>
C fold_lanes(const C* x, std::int64_t n, C start, Step step, Combine combine) {
#ifndef __CUDACC__
  if constexpr (folds_vectors<kLanes, C, Step, Combine>())
    return fold_vectors<kLanes>(x, n, start, step);
#endif
  alignas(64) C lanes[kLanes];
  std::fill(lanes, lanes + kLanes, start);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; ++j) lanes[j] = step(lanes[j], x[i + j]);
  for (int j = 0; i + j < n; ++j) lanes[j] = step(lanes[j], x[i + j]);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) lanes[j] = combine(lanes[j], lanes[j + width]);
  return lanes[0];
}

/** Returns the sum of lanes, pairwise in the order of fold_lanes. */
template <class C, int kLanes> C sum_of_lanes(C (&lanes)[kLanes]) {
#ifndef __CUDACC__
  if constexpr (std::is_floating_point_v<C> && kLanes >= Simd<C>::kWidth) {
    typename Simd<C>::V vectors[kLanes / Simd<C>::kWidth];
    std::memcpy(vectors, lanes, sizeof vectors);
    return sum_of<C>(vectors);
  }
#endif
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int j = 0; j < width; ++j) lanes[j] += lanes[j + width];
  return lanes[0];
}

template <int kLanes, class C, class Add, std::size_t... k>
std::array<C, sizeof...(k)> sum_lanes(std::int64_t n, Add add, std::index_sequence<k...>) {
  alignas(64) C lanes[sizeof...(k)][kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int j = 0; j < kLanes; ++j) add(i + j, lanes[k][j]...);
  for (int j = 0; i + j < n; ++j) add(i + j, lanes[k][j]...);
  return {sum_of_lanes(lanes[k])...};
}

}  // namespace detail

/** Returns step(... step(start, x[0]) ..., x[n-1]), computed in lanes that are combined pairwise.
 *  This vectorises, and errors grow with n / 64 instead of n. `start` must be neutral for
 *  combine. */
template <class C, class Step, class Combine>
C fold_row(const C* x, std::int64_t n, C start, Step step, Combine combine) {
  if (n >= 256) return detail::fold_lanes<64>(x, n, start, step, combine);
  if (n >= 16) return detail::fold_lanes<16>(x, n, start, step, combine);
  C result = start;
  for (std::int64_t i = 0; i < n; ++i) result = step(result, x[i]);
  return result;
}

/** Returns several sums over 0 <= i < n: add(i, a, b, ...) adds the terms of index i to each. The
 *  order is that of fold_row. */
template <std::size_t kSums, class C, class Add>
std::array<C, kSums> sum_row(std::int64_t n, Add add) {
  constexpr auto sums = std::make_index_sequence<kSums>{};
  if (n >= 256) return detail::sum_lanes<64, C>(n, add, sums);
  if (n >= 16) return detail::sum_lanes<16, C>(n, add, sums);
  return detail::sum_lanes<1, C>(n, add, sums);
}

/** With fewer columns than this, several rows are folded at a time, so that vectors are full. */
inline constexpr std::int64_t kNarrow = 64;

/** Returns the number of rows that are folded in parallel for a given number of columns. */
constexpr std::int64_t rows_side_by_side(std::int64_t width) {
  return width < kNarrow ? (kNarrow + width - 1) / width : 1;
}

/** Same for a chunk of a wider matrix: 1, because its rows are not contiguous. */
constexpr std::int64_t rows_side_by_side(std::int64_t width, std::int64_t stride) {
  return stride == width ? rows_side_by_side(width) : 1;
}

/** The maximum number of columns of a chunk, and of lanes in fold_columns. */
inline constexpr std::int64_t kMaxColumns = 256;

/** Folds each of `width` columns over the rows, starting from `start`. Row r begins at x + r *
 *  stride; stride == width exactly if the chunk spans its matrix. In step(result, value, lane),
 *  lane = column + width * (index of the row among those folded in parallel). Values of another
 *  type V are converted to C one by one. */
template <class V, class C, class Step, class Combine>
void fold_columns(const V* x, std::int64_t rows, std::int64_t stride, std::int64_t width, C start,
                  Step step, Combine combine, C* result) {
  const std::int64_t group = rows_side_by_side(width, stride);
  const std::int64_t lanes = group * width;
  const std::int64_t advance = group == 1 ? stride : lanes;
  alignas(64) C acc[kMaxColumns];
  std::fill(acc, acc + lanes, start);
  const auto at = [](const V* row, std::int64_t j) { return static_cast<C>(row[j]); };
  std::int64_t r = 0;
  for (; r + 4 * group <= rows; r += 4 * group, x += 4 * advance) {
    const V *x0 = x, *x1 = x + advance, *x2 = x + 2 * advance, *x3 = x + 3 * advance;
    for (std::int64_t j = 0; j < lanes; ++j)
      acc[j] =
          step(step(step(step(acc[j], at(x0, j), j), at(x1, j), j), at(x2, j), j), at(x3, j), j);
  }
  for (; r + group <= rows; r += group, x += advance) {
    for (std::int64_t j = 0; j < lanes; ++j) acc[j] = step(acc[j], at(x, j), j);
  }
  for (std::int64_t j = 0; j < (rows - r) * width; ++j) acc[j] = step(acc[j], at(x, j), j);
  for (std::int64_t count = group; count > 1; count = (count + 1) / 2) {
    const std::int64_t kept = (count + 1) / 2;
    for (std::int64_t j = 0; j < (count - kept) * width; ++j)
      acc[j] = combine(acc[j], acc[j + kept * width]);
  }
  std::copy(acc, acc + width, result);
}

/** Repeats `width` values once per row that fold_columns folds in parallel. */
template <class C>
void repeat_lanes(const C* values, std::int64_t width, std::int64_t stride, C* lanes) {
  const std::int64_t group = rows_side_by_side(width, stride);
  for (std::int64_t r = 0; r < group; ++r) std::copy(values, values + width, lanes + r * width);
}

}  // namespace mezzo::cpu_kernels
