// The positions of pooling windows, and the windows that contain an element. Parsed by g++ and by
// nvcc.
#pragma once

#include <array>
#include <cstdint>

#include "../../core/macros.h"

namespace mezzo::op {

/** One number each for depth, height and width. Ops over fewer dimensions leave the leading entries
 *  at their defaults: one window of size 1. */
using PoolSizes = std::array<std::int64_t, 3>;

/** The second output of a max pooling: none, the positions of the maxima in their windows (u8), or
 * in the input (i64); both count in row-major order. */
enum class PoolPositions { none, in_window, in_plane };

/** Attributes of the windows of all pooling ops. */
struct PoolAttrs {
  PoolSizes kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  bool ceil_mode = false;         // the last window may extend beyond the padded input
  bool adaptive = false;          // `output` windows divide the input; the numbers above are unused
  PoolSizes output{1, 1, 1};      // adaptive only
  bool count_include_pad = true;  // means: divide by the window's size including padding
  std::int64_t divisor = 0;       // means: divide by this; 0: by the number of elements
  PoolPositions positions = PoolPositions::in_plane;  // maxima
  bool late_gradient = false;  // maxima: of an op's result, whose gradient that op may read late

  /** Returns true for windows of 2 x 2 elements side by side, over at most two dimensions. */
  bool are_pairs() const {
    constexpr PoolSizes pairs{1, 2, 2}, none{0, 0, 0}, ones{1, 1, 1};
    return !adaptive && kernel == pairs && stride == pairs && padding == none && dilation == ones;
  }
  /** Returns true if the positions in a window are at most 255. Adaptive windows vary in size. The
   *  numbers need not be checked yet. */
  bool window_fits_a_byte() const {
    std::int64_t size = 1;
    for (const std::int64_t side : kernel) {
      if (side < 1 || side > 256) return false;
      size *= side;
    }
    return !adaptive && size <= 256;
  }
};

/** One window along one dimension: positions begin, begin + dilation, ... below end, all inside the
 *  input. `counted` is the window's size in a mean's divisor. */
struct PoolSpan {
  std::int64_t begin, end, counted;
};

/** Returns the window of result element `o` along `axis` (0..2) of an input of size `in`. */
MZ_HD inline PoolSpan pool_span(const PoolAttrs& attrs, int axis, std::int64_t in, std::int64_t o) {
  const auto a = static_cast<std::size_t>(axis);
  if (attrs.adaptive) {
    const std::int64_t out = attrs.output[a];
    const std::int64_t begin = o * in / out, end = ((o + 1) * in + out - 1) / out;
    return {begin, end, end - begin};
  }
  const std::int64_t dilation = attrs.dilation[a], padding = attrs.padding[a];
  const std::int64_t first = o * attrs.stride[a] - padding;
  const std::int64_t end = first + dilation * (attrs.kernel[a] - 1) + 1;
  const std::int64_t outside =
      first < 0 ? (-first + dilation - 1) / dilation : 0;  // elements before the input
  PoolSpan span{first + outside * dilation, end < in ? end : in, 0};
  const std::int64_t padded = in + padding;
  span.counted =
      attrs.count_include_pad ? (end < padded ? end : padded) - first : span.end - span.begin;
  return span;
}

/** The result elements begin..end-1. */
struct PoolRange {
  std::int64_t begin, end;
};

/** Returns the result elements along `axis`, of `out`, whose first and last window position enclose
 *  element `i` of an input of size `in`. Without dilation their windows contain the element. */
MZ_HD inline PoolRange windows_reaching(const PoolAttrs& attrs, int axis, std::int64_t in,
                                        std::int64_t out, std::int64_t i) {
  const auto a = static_cast<std::size_t>(axis);
  if (attrs.adaptive) return {i * out / in, ((i + 1) * out + in - 1) / in};
  const std::int64_t stride = attrs.stride[a], last = i + attrs.padding[a];
  const std::int64_t first = last - attrs.dilation[a] * (attrs.kernel[a] - 1);
  const std::int64_t begin = first <= 0 ? 0 : (first + stride - 1) / stride,
                     end = last / stride + 1;
  return {begin, end < out ? end : out};
}

}  // namespace mezzo::op
