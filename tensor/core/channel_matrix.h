// channels_in, channels_as_in: bring an operand into a layout, for kernels that work channel by
// channel and do not depend on the order of positions. Parsed by g++ and by nvcc.
#pragma once

#include "row_major.h"

namespace mezzo {

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
