// Masks of attention as arrays that cuDNN reads: a bias for a mask, zeros and ones for dropout.
// Parsed by g++ and by nvcc.
#pragma once

#include "../../../tensor/ops/attention/attention.h"
#include "../../dnn/dnn.h"

namespace mezzo::gpu {

/** Returns the bias, in f32, of a problem whose first entry is `first` of the whole batch: the
 *  mask's numbers, or 0, and -1e37 for keys that the mask hides, with false or -inf. Numbers below
 *  kLowestOfMask are raised to it. The mask broadcasts over `batch` [.., queries, keys]. */
Tensor bias_for_mask(const dnn::Attention& problem, const Tensor& mask, const Shape& batch,
                     std::int64_t first);

/** Returns 1 for probabilities that dropout keeps, else 0, in the problem's dtype, with the bits of
 *  Mezzo's own kernels. `first`: as above. */
Tensor kept_probabilities(const dnn::Attention& problem, const PhiloxStream& stream,
                          std::int64_t first, Device device);

/** Sets y to 0, and the logarithm to +inf, in rows whose bias hides every key, as Mezzo's own
 *  kernels do. */
void clear_hidden_rows(const dnn::Attention& problem, Device device);

}  // namespace mezzo::gpu
