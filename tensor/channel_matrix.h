// channels_as_in: what a kernel that works channel by channel, and for which all positions of an image are alike, is given in place of an operand.
// Sees: row_major.h; parsed by nvcc too.
// Read next: channel_matrix.cpp, cpu/batch_norm.cpp (the user).
#pragma once

#include "row_major.h"

namespace mezzo {

/** x, of the shape of a kernel's result, in that one's order. Where it is channels-last, as a matrix with a row of channels for each position of each
 *  sample. A view outside the graph, or a copy; undefined where x is. */
Tensor channels_as_in(const Tensor& result, const Tensor& x);

}  // namespace mezzo
