// The linear map of a resizing along one dimension: which elements make up each result, and with which weights.
// Sees: separable.h, ../ops/interpolate.h.
// Read next: interpolate.cpp (its user).
#pragma once

#include <algorithm>
#include <cmath>

#include "../ops/interpolate.h"
#include "separable.h"

namespace mezzo::cpu_kernels {

/** The cubic convolution kernel at distance x >= 0. Source: Keys, IEEE TASSP 29, 1981. */
template <class C> C cubic(C x, C a) {
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

/** Sizes along one dimension, and the step in the operand for one step in the result. */
template <class C> struct Resizing {
  std::int64_t in, out;
  C scale;

  Resizing(const op::InterpolateAttrs& attrs, std::size_t d, std::int64_t operands)
      : in(operands), out(attrs.sizes[d]) {
    if (attrs.align_corners)
      scale = out > 1 ? static_cast<C>(in - 1) / static_cast<C>(out - 1) : C(0);
    else if (attrs.scales[d] > 0)
      scale = static_cast<C>(1 / attrs.scales[d]);
    else
      scale = static_cast<C>(in) / static_cast<C>(out);
  }
  std::int64_t inside(std::int64_t i) const { return std::clamp<std::int64_t>(i, 0, in - 1); }
};

/** The place in the operand of each result's middle. */
template <class C> C source_of(const Resizing<C>& r, std::int64_t o, bool align_corners) {
  const C place = static_cast<C>(o);
  return align_corners ? r.scale * place : r.scale * (place + C(0.5)) - C(0.5);
}

template <class C> void add_linear(SparseRows<C>& rows, const Resizing<C>& r, C source) {
  source = std::max(source, C(0));
  const std::int64_t first = r.inside(static_cast<std::int64_t>(source));
  const C t = std::min(source - static_cast<C>(first), C(1));
  rows.add(first, 1 - t);
  rows.add(r.inside(first + 1), t);
}

template <class C> void add_cubic(SparseRows<C>& rows, const Resizing<C>& r, C source) {
  const C whole = std::floor(source), t = source - whole;
  for (int k = -1; k <= 2; ++k)
    rows.add(r.inside(static_cast<std::int64_t>(whole) + k),
             cubic(std::abs(t - static_cast<C>(k)), C(-0.75)));
}

/** A triangle or a cubic, as wide as what one result covers; its weights sum to 1. */
template <class C>
void add_filtered(SparseRows<C>& rows, const Resizing<C>& r, std::int64_t o, bool is_cubic) {
  const C stretch = std::max(r.scale, C(1)), support = (is_cubic ? C(2) : C(1)) * stretch;
  const C center = r.scale * (static_cast<C>(o) + C(0.5));
  const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(center - support + C(0.5)), 0);
  const auto end = std::min<std::int64_t>(static_cast<std::int64_t>(center + support + C(0.5)), r.in);
  const auto weight = [&](std::int64_t i) {
    const C x = std::abs((static_cast<C>(i) - center + C(0.5)) / stretch);
    return is_cubic ? cubic(x, C(-0.5)) : std::max(1 - x, C(0));
  };
  C total = 0;
  for (std::int64_t i = first; i < end; ++i) total += weight(i);
  for (std::int64_t i = first; i < end; ++i) rows.add(i, weight(i) / total);
}

/** The map along spatial dimension d of an operand that has `operands` elements there. */
template <class C>
SparseRows<C> interpolation_rows(const op::InterpolateAttrs& attrs, std::size_t d, std::int64_t operands) {
  SparseRows<C> rows(operands);
  // Which element is nearest is decided in f32 whatever the dtype, so that dtypes agree about it.
  const Resizing<float> coarse(attrs, d, operands);
  const Resizing<C> r(attrs, d, operands);
  for (std::int64_t o = 0; o < r.out; ++o) {
    const C source = source_of(r, o, attrs.align_corners);
    const auto place = static_cast<float>(o);
    switch (attrs.mode) {
      case InterpolateMode::nearest:
        rows.add(r.inside(static_cast<std::int64_t>(std::floor(place * coarse.scale))), 1);
        break;
      case InterpolateMode::nearest_exact:
        rows.add(r.inside(static_cast<std::int64_t>(std::floor((place + 0.5f) * coarse.scale))), 1);
        break;
      case InterpolateMode::bicubic:
        attrs.antialias ? add_filtered(rows, r, o, true) : add_cubic(rows, r, source);
        break;
      default: attrs.antialias ? add_filtered(rows, r, o, false) : add_linear(rows, r, source);
    }
    rows.finish_row();
  }
  return rows;
}

}  // namespace mezzo::cpu_kernels
