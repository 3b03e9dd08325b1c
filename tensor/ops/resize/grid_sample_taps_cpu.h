// The elements of an image that contribute to one sample, with their weights and the derivatives of
// the weights by position. Parsed by g++ and by nvcc.
#pragma once

#include <array>
#include <cmath>
#include <type_traits>
#include <utility>

#include "../../core/compute_type.h"
#include "grid_sample.h"

namespace mezzo::cpu_kernels {

/** A position along one dimension, in elements, and its derivative by the grid's coordinate. */
template <class C> struct GridPlace {
  C at, slope;
};

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

/** Calls f(std::integral_constant<std::size_t, i>) for i from 0 to n - 1. */
template <std::size_t n, class F> MZ_HD void for_each_constant(F&& f) {
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    (f(std::integral_constant<std::size_t, i>{}), ...);
  }(std::make_index_sequence<n>{});
}

/** The elements along one dimension, one in each of `slots`: 2 for bilinear and nearest, 4 for
 *  bicubic. Slots outside the image are skipped. */
template <class C, int slots> struct AxisTaps {
  std::array<bool, slots> inside{};
  std::array<std::int64_t, slots> at{};
  std::array<C, slots> weight{}, slope{};

  MZ_HD void set(std::size_t slot, C place, std::int64_t size, C w, C s) {
    inside[slot] = place >= 0 && place < static_cast<C>(size);
    if (!inside[slot]) return;
    at[slot] = static_cast<std::int64_t>(place);
    weight[slot] = w;
    slope[slot] = s;
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

template <int slots, class C>
MZ_HD AxisTaps<C, slots> cubic_taps(GridPlace<C> place, std::int64_t size,
                                    const op::GridSampleAttrs& attrs) {
  const C first = std::floor(place.at), t = place.at - first;
  AxisTaps<C, slots> taps;
  for_each_constant<slots>([&]<std::size_t slot>(std::integral_constant<std::size_t, slot>) {
    constexpr int k = static_cast<int>(slot) - 1;
    // The padding rule applies to each element by itself; its weight depends on the unpadded
    // position.
    const C element = std::isfinite(first) ? first + static_cast<C>(k) : place.at;
    const auto [w, s] = cubic_and_slope<C>(t - static_cast<C>(k));
    const bool finite = std::isfinite(w);
    taps.set(slot, std::nearbyint(padded<C>({element, 1}, size, attrs).at), size,
             finite ? w : C(k == 0), finite ? s * place.slope : C(0));
  });
  return taps;
}

/** Returns the taps along a dimension of `size` elements for one coordinate of the grid. */
template <class C, int slots>
MZ_HD AxisTaps<C, slots> axis_taps(C coordinate, std::int64_t size,
                                   const op::GridSampleAttrs& attrs) {
  const C n = static_cast<C>(size);
  GridPlace<C> place = attrs.align_corners
                           ? GridPlace<C>{(coordinate + 1) / 2 * (n - 1), (n - 1) / 2}
                           : GridPlace<C>{((coordinate + 1) * n - 1) / 2, n / 2};
  if constexpr (slots == 4) {
    return cubic_taps<slots>(place, size, attrs);
  } else {
    AxisTaps<C, slots> taps;
    place = padded(place, size, attrs);
    if (attrs.mode == GridSampleMode::nearest) {
      taps.set(0, std::nearbyint(place.at), size, 1, 0);
      return taps;
    }
    const C first = std::floor(place.at), t = place.at - first;
    taps.set(0, first, size, 1 - t, -place.slope);
    taps.set(1, first + 1, size, t, place.slope);
    return taps;
  }
}

/** Returns the largest number of elements of a sample. */
template <int N, int slots> constexpr std::size_t most_taps() {
  return N == 2 ? slots * slots : slots * slots * slots;
}

/** One element of a sample: its offset in a plane, its weight, and the derivatives of the weight by
 *  each of the grid's coordinates (x first). */
template <class C, int N> struct SampleTap {
  std::int64_t offset = 0;
  C weight = 1;
  std::array<C, N> slope;
};

/** The elements of one sample by dimension, outermost first. On a GPU all indices are constants, so
 *  that it keeps the arrays in registers. */
template <class C, int N, int slots> struct SampleAxes {
  std::array<AxisTaps<C, slots>, N> axes;

  /** `sizes` are the plane's, outermost first; `coordinates` are the grid's, innermost first. */
  MZ_HD SampleAxes(const C* coordinates, const std::array<std::int64_t, N>& sizes,
                   const op::GridSampleAttrs& attrs) {
    for_each_constant<N>([&]<std::size_t d>(std::integral_constant<std::size_t, d>) {
      axes[d] = axis_taps<C, slots>(coordinates[N - 1 - d], sizes[d], attrs);
    });
  }

  /** Calls f(tap) for each element inside the image; the innermost dimension varies fastest. */
  template <class F> MZ_HD void for_each(const std::array<std::int64_t, N>& sizes, F&& f) const {
#ifdef __CUDACC__
    for_each_constant<most_taps<N, slots>()>([&](auto k) { visit(k, sizes, f); });
#else
    for (std::size_t k = 0; k < most_taps<N, slots>(); ++k) visit(k, sizes, f);
#endif
  }

 private:
  /** The slot of dimension d in combination k. */
  MZ_HD static constexpr std::size_t chosen(std::size_t k, std::size_t d) {
    for (std::size_t i = N - 1; i > d; --i) k /= slots;
    return k % slots;
  }
  template <class F>
  MZ_HD void visit(std::size_t k, const std::array<std::int64_t, N>& sizes, F& f) const {
    bool inside = true;
    for_each_constant<N>([&]<std::size_t d>(std::integral_constant<std::size_t, d>) {
      inside = inside && axes[d].inside[chosen(k, d)];
    });
    if (!inside) return;
    SampleTap<C, N> tap;
    for_each_constant<N>([&]<std::size_t d>(std::integral_constant<std::size_t, d>) {
      tap.offset = tap.offset * sizes[d] + axes[d].at[chosen(k, d)];
      tap.weight *= axes[d].weight[chosen(k, d)];
    });
    for_each_constant<N>([&]<std::size_t moving>(std::integral_constant<std::size_t, moving>) {
      C product = 1;
      for_each_constant<N>([&]<std::size_t d>(std::integral_constant<std::size_t, d>) {
        product *= d == moving ? axes[d].slope[chosen(k, d)] : axes[d].weight[chosen(k, d)];
      });
      tap.slope[N - 1 - moving] = product;
    });
    f(tap);
  }
};

/** The elements of one sample inside the image, as a list. */
template <class C, int N, int slots> class SampleTaps {
 public:
  SampleTaps(const C* coordinates, const std::array<std::int64_t, N>& sizes,
             const op::GridSampleAttrs& attrs) {
    SampleAxes<C, N, slots>(coordinates, sizes, attrs)
        .for_each(sizes, [this](const SampleTap<C, N>& tap) { taps_[count_++] = tap; });
  }
  const SampleTap<C, N>* begin() const { return taps_.data(); }
  const SampleTap<C, N>* end() const { return taps_.data() + count_; }

 private:
  std::size_t count_ = 0;
  std::array<SampleTap<C, N>, most_taps<N, slots>()> taps_;
};

/** Calls f<C, N, slots> with the compute type, the number of spatial dimensions and the slots of
 *  each (AxisTaps). */
template <class F> void visit_sampling(DType dtype, int rank, GridSampleMode mode, F&& f) {
  visit_floating_compute(dtype, [&]<class C>(std::type_identity<C> compute) {
    constexpr std::integral_constant<int, 2> two;
    if (rank == 5)
      f(compute, std::integral_constant<int, 3>{}, two);
    else if (mode == GridSampleMode::bicubic)
      f(compute, two, std::integral_constant<int, 4>{});
    else
      f(compute, two, two);
  });
}

}  // namespace mezzo::cpu_kernels
