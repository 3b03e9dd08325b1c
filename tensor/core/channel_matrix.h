// channels_as_in: brings an operand into the layout of a result, for kernels that work channel by
// channel and do not depend on the order of positions. Parsed by g++ and by nvcc.
#pragma once

#include "row_major.h"

namespace mezzo {

/** Returns x, which has the shape of the kernel result `result`, in the element order of `result`.
 *  If `result` is channels-last, the returned tensor is a matrix with one row of channels per
 *  position of each sample. It is a view outside the graph, or a copy; undefined if x is
 *  undefined. */
Tensor channels_as_in(const Tensor& result, const Tensor& x);

}  // namespace mezzo
