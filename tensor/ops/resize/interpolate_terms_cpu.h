// The linear map of a resizing along one dimension: the elements of each result and their weights.
// Parsed by g++ and by nvcc.
#pragma once

#include <algorithm>
#include <cmath>

#include "interpolate.h"

namespace mezzo::cpu_kernels {

/** Returns the cubic convolution kernel at distance x >= 0. Source: Keys, IEEE TASSP 29, 1981. */
template <class C> MZ_HD C cubic(C x, C a) {
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

/** Sizes along one dimension, and the step in the operand for one step in the result. */
template <class C> struct Resizing {
  std::int64_t in = 1, out = 1;
  C scale = 1;

  Resizing() = default;
  Resizing(const op::InterpolateAttrs& attrs, std::size_t d, std::int64_t operands)
      : in(operands), out(attrs.sizes[d]) {
    if (attrs.align_corners)
      scale = out > 1 ? static_cast<C>(in - 1) / static_cast<C>(out - 1) : C(0);
    else if (attrs.scales[d] > 0)
      scale = static_cast<C>(1 / attrs.scales[d]);
    else
      scale = static_cast<C>(in) / static_cast<C>(out);
  }
  MZ_HD std::int64_t inside(std::int64_t i) const { return i < 0 ? 0 : i < in ? i : in - 1; }
};

/** The map along one dimension. Its functions call add(element, weight) for each term of result o;
 *  terms of weight 0 can be skipped. */
template <class C> struct Interpolation {
  Resizing<C> r;
  // The nearest element is selected in f32 for all dtypes, so that all dtypes select the same one.
  Resizing<float> coarse;
  InterpolateMode mode = InterpolateMode::nearest;
  bool align_corners = false, antialias = false;

  /** The identity on a single element. */
  Interpolation() = default;
  Interpolation(const op::InterpolateAttrs& attrs, std::size_t d, std::int64_t operands)
      : r(attrs, d, operands),
        coarse(attrs, d, operands),
        mode(attrs.mode),
        align_corners(attrs.align_corners),
        antialias(attrs.antialias) {}

  template <class Add> MZ_HD void for_each_term(std::int64_t o, Add&& add) const {
    const auto place = static_cast<float>(o);
    switch (mode) {
      case InterpolateMode::nearest:
        add(r.inside(static_cast<std::int64_t>(std::floor(place * coarse.scale))), C(1));
        break;
      case InterpolateMode::nearest_exact:
        add(r.inside(static_cast<std::int64_t>(std::floor((place + 0.5f) * coarse.scale))), C(1));
        break;
      case InterpolateMode::bicubic:
        antialias ? filtered(o, true, add) : cubic_terms(source_of(o), add);
        break;
      default: antialias ? filtered(o, false, add) : linear_terms(source_of(o), add);
    }
  }

 private:
  /** Returns the position in the operand of the result's centre. */
  MZ_HD C source_of(std::int64_t o) const {
    const C place = static_cast<C>(o);
    return align_corners ? r.scale * place : r.scale * (place + C(0.5)) - C(0.5);
  }

  template <class Add> MZ_HD void linear_terms(C source, Add& add) const {
    source = source < C(0) ? C(0) : source;
    const std::int64_t first = r.inside(static_cast<std::int64_t>(source));
    const C beyond = source - static_cast<C>(first), t = C(1) < beyond ? C(1) : beyond;
    add(first, 1 - t);
    add(r.inside(first + 1), t);
  }

  template <class Add> MZ_HD void cubic_terms(C source, Add& add) const {
    const C whole = std::floor(source), t = source - whole;
    for (int k = -1; k <= 2; ++k)
      add(r.inside(static_cast<std::int64_t>(whole) + k),
          cubic(std::abs(t - static_cast<C>(k)), C(-0.75)));
  }

  /** Adds the terms of a triangular or cubic filter as wide as one result; its weights sum to 1. */
  template <class Add> MZ_HD void filtered(std::int64_t o, bool is_cubic, Add& add) const {
    const C stretch = r.scale < C(1) ? C(1) : r.scale, support = (is_cubic ? C(2) : C(1)) * stretch;
    const C center = r.scale * (static_cast<C>(o) + C(0.5));
    const auto low = static_cast<std::int64_t>(center - support + C(0.5)),
               high = static_cast<std::int64_t>(center + support + C(0.5));
    const std::int64_t first = low < 0 ? 0 : low, end = r.in < high ? r.in : high;
    const auto weight = [&](std::int64_t i) {
      const C x = std::abs((static_cast<C>(i) - center + C(0.5)) / stretch);
      return is_cubic ? cubic(x, C(-0.5)) : 1 - x < C(0) ? C(0) : 1 - x;
    };
    C total = 0;
    for (std::int64_t i = first; i < end; ++i) total += weight(i);
    for (std::int64_t i = first; i < end; ++i) add(i, weight(i) / total);
  }
};

}  // namespace mezzo::cpu_kernels
