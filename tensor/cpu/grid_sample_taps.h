// The elements of an image that contribute to one sample, with their weights and the derivatives of
// the weights by position. Parsed by g++ and by nvcc.
#pragma once

#include <array>
#include <cmath>

#include "../core/compute_type.h"
#include "../ops/grid_sample.h"

namespace mezzo::cpu_kernels {

/** A position along one dimension, in elements, and its derivative by the grid's coordinate. */
template <class C> struct GridPlace { C at, slope; };

/** Limits a position to the image's elements; the derivative is 0 at and beyond a limit. nan
 *  becomes the first element. */
template <class C> MZ_HD GridPlace<C> clipped(GridPlace<C> p, std::int64_t size) {
  const C last = static_cast<C>(size - 1);
  if (!(p.at > 0)) return {0, 0};
  if (p.at >= last) return {last, 0};
  return p;
}

/** Reflects a position at the image's borders, as often as needed. */
template <class C>
MZ_HD GridPlace<C> reflected(GridPlace<C> p, std::int64_t size, bool align_corners) {
  const C low = align_corners ? C(0) : C(-0.5),
          span = static_cast<C>(align_corners ? size - 1 : size);
  if (span == 0 || !std::isfinite(p.at)) return {0, 0};
  const C from_low = p.at - low, distance = std::abs(from_low);
  const bool flipped = std::fmod(std::floor(distance / span), C(2)) != 0;
  const C rest = std::fmod(distance, span);
  const C sign = (from_low < 0) != flipped ? C(-1) : C(1);
  return clipped<C>({(flipped ? span - rest : rest) + low, sign * p.slope}, size);
}

template <class C>
MZ_HD GridPlace<C> padded(GridPlace<C> p, std::int64_t size, const op::GridSampleAttrs& attrs) {
  switch (attrs.padding) {
    case GridSamplePadding::border: return clipped(p, size);
    case GridSamplePadding::reflection: return reflected(p, size, attrs.align_corners);
    default: return p;
  }
}

/** Up to four elements along one dimension; those outside the image are skipped. */
template <class C> struct AxisTaps {
  int count = 0;
  std::array<std::int64_t, 4> at{};
  std::array<C, 4> weight{}, slope{};

  MZ_HD void add(C place, std::int64_t size, C w, C s) {
    if (!(place >= 0 && place < static_cast<C>(size))) return;
    const auto i = static_cast<std::size_t>(count++);
    at[i] = static_cast<std::int64_t>(place);
    weight[i] = w;
    slope[i] = s;
  }
};

/** Returns the cubic convolution kernel with a = -0.75 at distance x in -2..2, and its
 *  derivative. */
template <class C> MZ_HD std::array<C, 2> cubic_and_slope(C x) {
  constexpr C a = C(-0.75);
  const C d = std::abs(x), sign = x < 0 ? C(-1) : C(1);
  if (d <= 1)
    return {((a + 2) * d - (a + 3)) * d * d + 1, sign * (3 * (a + 2) * d - 2 * (a + 3)) * d};
  return {((a * d - 5 * a) * d + 8 * a) * d - 4 * a, sign * ((3 * a * d - 10 * a) * d + 8 * a)};
}

/** Returns the taps along a dimension of `size` elements for one coordinate of the grid. */
template <class C>
MZ_HD AxisTaps<C> axis_taps(C coordinate, std::int64_t size, const op::GridSampleAttrs& attrs) {
  const C n = static_cast<C>(size);
  GridPlace<C> place = attrs.align_corners
                           ? GridPlace<C>{(coordinate + 1) / 2 * (n - 1), (n - 1) / 2}
                           : GridPlace<C>{((coordinate + 1) * n - 1) / 2, n / 2};
  AxisTaps<C> taps;
  if (attrs.mode == GridSampleMode::bicubic) {
    const C first = std::floor(place.at), t = place.at - first;
    for (int k = -1; k <= 2; ++k) {
      // The padding rule applies to each element by itself; its weight depends on the unpadded
      // position.
      const C element = std::isfinite(first) ? first + static_cast<C>(k) : place.at;
      const auto [w, s] = cubic_and_slope<C>(t - static_cast<C>(k));
      const bool finite = std::isfinite(w);
      taps.add(std::nearbyint(padded<C>({element, 1}, size, attrs).at), size,
               finite ? w : C(k == 0), finite ? s * place.slope : C(0));
    }
    return taps;
  }
  place = padded(place, size, attrs);
  if (attrs.mode == GridSampleMode::nearest) {
    taps.add(std::nearbyint(place.at), size, 1, 0);
    return taps;
  }
  const C first = std::floor(place.at), t = place.at - first;
  taps.add(first, size, 1 - t, -place.slope);
  taps.add(first + 1, size, t, place.slope);
  return taps;
}

/** All elements of one sample: their offsets in a plane, their weights, and the derivatives of the
 *  weights by each of the grid's coordinates (x first). */
template <class C, int N> struct SampleTaps {
  static constexpr int kMax = 16;  // 4 x 4, or 2 x 2 x 2
  int count = 0;
  std::array<std::int64_t, kMax> offset;
  std::array<C, kMax> weight;
  std::array<std::array<C, kMax>, N> slope;

  /** `sizes` are the plane's, outermost first; `coordinates` are the grid's, innermost first. */
  MZ_HD SampleTaps(const C* coordinates, const std::array<std::int64_t, N>& sizes,
                   const op::GridSampleAttrs& attrs) {
    std::array<AxisTaps<C>, N> axes;
    for (std::size_t d = 0; d < N; ++d)
      axes[d] = axis_taps(coordinates[N - 1 - d], sizes[d], attrs);
    int combinations = 1;
    for (const AxisTaps<C>& axis : axes) combinations *= axis.count;
    for (; count < combinations; ++count) add(axes, sizes);
  }

 private:
  /** Adds combination number `count`; the innermost dimension varies fastest. */
  MZ_HD void add(const std::array<AxisTaps<C>, N>& axes, const std::array<std::int64_t, N>& sizes) {
    const auto at = static_cast<std::size_t>(count);
    std::array<std::size_t, N> chosen;
    int rest = count;
    for (std::size_t d = N; d-- > 0;) {
      chosen[d] = static_cast<std::size_t>(rest % axes[d].count);
      rest /= axes[d].count;
    }
    offset[at] = 0;
    weight[at] = 1;
    for (std::size_t d = 0; d < N; ++d) {
      offset[at] = offset[at] * sizes[d] + axes[d].at[chosen[d]];
      weight[at] *= axes[d].weight[chosen[d]];
    }
    for (std::size_t moving = 0; moving < N; ++moving) {
      C product = 1;
      for (std::size_t d = 0; d < N; ++d)
        product *= d == moving ? axes[d].slope[chosen[d]] : axes[d].weight[chosen[d]];
      slope[N - 1 - moving][at] = product;
    }
  }
};

/** Calls f<C, N> with the compute type and the number of spatial dimensions. */
template <class F> void visit_sampling(DType dtype, int rank, F&& f) {
  visit_floating_compute(dtype, [&]<class C>(std::type_identity<C>) {
    if (rank == 4)
      f(std::type_identity<C>{}, std::integral_constant<int, 2>{});
    else
      f(std::type_identity<C>{}, std::integral_constant<int, 3>{});
  });
}

}  // namespace mezzo::cpu_kernels
