// Where the windows of a pooling lie, and which of them reach an element.
// Sees: ../macros.h; parsed by nvcc too.
// Read next: pool.h (the ops).
#pragma once

#include <array>
#include <cstdint>

#include "../macros.h"

namespace mezzo::op {

/** One number for depth, height and width. An op over fewer dimensions leaves the first ones as they are by default: one window of size 1. */
using PoolSizes = std::array<std::int64_t, 3>;

/** The windows of any pooling. */
struct PoolAttrs {
  PoolSizes kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  bool ceil_mode = false;         // a last window may reach beyond the padded input
  bool adaptive = false;          // `output` windows divide the input; the numbers above take no part
  PoolSizes output{1, 1, 1};      // adaptive only
  bool count_include_pad = true;  // means: divide by the window's size, padding included
  std::int64_t divisor = 0;       // means: divide by this instead; 0: by the number of elements
  bool with_indices = true;       // maxima: the second output is wanted; otherwise it is empty
};

/** One window along one dimension: positions begin, begin + dilation, ... below end, all inside the input; `counted` is the window's size as
 *  a mean's divisor sees it. */
struct PoolSpan {
  std::int64_t begin, end, counted;
};

/** The window of result element `o` along `axis` (0..2) of an input of size `in`. */
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
  span.counted = attrs.count_include_pad ? (end < padded ? end : padded) - first : span.end - span.begin;
  return span;
}

/** Result elements begin, ... below end. */
struct PoolRange {
  std::int64_t begin, end;
};

/** The result elements along `axis`, of `out`, between whose first and last position element `i` of an input of size `in` lies: without
 *  dilation those whose windows it is in. */
MZ_HD inline PoolRange windows_reaching(const PoolAttrs& attrs, int axis, std::int64_t in, std::int64_t out,
                                        std::int64_t i) {
  const auto a = static_cast<std::size_t>(axis);
  if (attrs.adaptive) return {i * out / in, ((i + 1) * out + in - 1) / in};
  const std::int64_t stride = attrs.stride[a], last = i + attrs.padding[a];
  const std::int64_t first = last - attrs.dilation[a] * (attrs.kernel[a] - 1);
  const std::int64_t begin = first <= 0 ? 0 : (first + stride - 1) / stride, end = last / stride + 1;
  return {begin, end < out ? end : out};
}

}  // namespace mezzo::op
