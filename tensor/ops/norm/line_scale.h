// Powers of two that bring lines into the range of products and squares. Scaling by them is exact,
// so results are those of unscaled lines where those do not overflow.
#pragma once

#include "../../core/tensor.h"

namespace mezzo {

/** Returns, for each number in `sizes`, the power of two that brings it to [1, 4): 1 for numbers
 * from 2^-30 to 2^30, for 0, infinities and nan. Without gradient. */
Tensor scale_of_sizes(const Tensor& sizes);

/** Returns scale_of_sizes() of the greatest |x| of each line over the dimensions in `dims`, which
 * are kept with size 1. */
Tensor line_scale(const Tensor& x, std::uint32_t dims);

/** Returns the scales, at most 1 / sqrt(offset): where x^2 + offset is computed as x^2 scale^2 +
 *  offset scale^2, the second term stays in range for tiny x. */
Tensor at_most_for(const Tensor& scale, double offset);

/** Returns x * scale; x itself if the scales are on the CPU and all 1. */
Tensor scaled(const Tensor& x, const Tensor& scale);
/** Returns x / scale; x itself if the scales are on the CPU and all 1. */
Tensor unscaled(const Tensor& x, const Tensor& scale);

}  // namespace mezzo
