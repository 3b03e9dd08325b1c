// row_major, with_row_major: what a kernel that walks through memory in order is given in place of any operand, and of its result.
// Sees: tensor.h; parsed by nvcc too.
// Read next: row_major.cpp, compute_type.h.
#pragma once

#include <span>

#include "tensor.h"

namespace mezzo {

/** x in the order of a format on its device: x itself, or a copy; undefined where x is. For kernels: nothing is recorded, cast or traced. */
Tensor laid_out(const Tensor& x, MemoryFormat format);
inline Tensor row_major(const Tensor& x) { return laid_out(x, MemoryFormat::contiguous); }

/** The format of a kernel's result, to bring its operands into, where these are images of `spatial` dimensions: where the result has both formats,
 *  one of the first two operands decides. Without a batch row-major. */
MemoryFormat common_format(std::span<const Tensor> in, const Tensor& result, int spatial);

/** x with its dimensions in channels-last order: row-major where x is channels-last. A view outside the graph. */
Tensor channels_at_end(const Tensor& x);

namespace detail {
Tensor row_major_stand_in(const Tensor& x);
void take_over(const Tensor& from, Tensor& to);
}  // namespace detail

/** Runs f(y) on `out`, or on a row-major stand-in whose elements are then copied to it. For kernels that write in order. */
template <class F> void with_row_major(Tensor& out, F&& f) {
  if (out.is_contiguous()) return f(out);
  Tensor y = detail::row_major_stand_in(out);
  f(y);
  detail::take_over(y, out);
}

}  // namespace mezzo
