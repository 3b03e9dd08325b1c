// row_major, channels_in and others: bring the operands and the result of a kernel into a layout
// that it can work with. Parsed by g++ and by nvcc.
#pragma once

#include <span>

#include "tensor.h"

namespace mezzo {

/** Returns x in the order of a format on its device: x itself, or a copy; undefined if x is. For
 *  kernels: nothing is recorded, cast or traced. */
Tensor to_format(const Tensor& x, MemoryFormat format);
/** Returns whether x is row-major and to_format() has its channels-last order without a copy. */
bool is_channels_last_inside(const Tensor& x);
/** Returns x in row-major order, as to_format. */
inline Tensor row_major(const Tensor& x) { return to_format(x, MemoryFormat::contiguous); }

/** Returns the format to bring a kernel's operands into, which is that of its result. If the result
 *  has both formats, the first two operands decide. Applies to batches of images of `spatial`
 *  dimensions; without a batch it is row-major. */
MemoryFormat common_format(std::span<const Tensor> in, const Tensor& result, int spatial);

/** Returns a view of x, outside the graph, with its dimensions in channels-last order; it is
 *  row-major if x is channels-last. */
Tensor channels_at_end(const Tensor& x);

namespace detail {
/** Returns uninitialised row-major workspace of the shape, dtype and device of x. */
Tensor contiguous_scratch(const Tensor& x);
/** Copies the elements of `from` into `to`. */
void copy_into(const Tensor& from, Tensor& to);
}  // namespace detail

/** Runs f(y) on `out`, or on contiguous workspace whose elements are then copied to `out`. For
 *  kernels that write in row-major order. */
template <class F> void with_row_major(Tensor& out, F&& f) {
  if (out.is_contiguous()) return f(out);
  Tensor y = detail::contiguous_scratch(out);
  f(y);
  detail::copy_into(y, out);
}

/** Returns x in the element order of a format. For channels-last the returned tensor is a matrix
 *  with one row of channels per position of each sample. It is a view outside the graph, or a copy;
 *  undefined if x is undefined. */
Tensor channels_in(MemoryFormat format, const Tensor& x);

/** Returns x, which has the shape of the kernel result `result`, in the element order of
 *  `result`. */
inline Tensor channels_as_in(const Tensor& result, const Tensor& x) {
  return channels_in(
      result.is_contiguous() ? MemoryFormat::contiguous : MemoryFormat::channels_last, x);
}

}  // namespace mezzo
