// Gradients of rows of which the last write to each position is kept: only that row gets the
// gradient.
#pragma once

#include "../../core/tensor.h"

namespace mezzo {

/** Returns g with zeros for rows that a later row overwrote. g holds the gradients of rows that
 *  were written to the positions in `index`, all less than `places`. The index's dimensions are
 *  those of g from `dim` on. */
Tensor without_overwritten(const Tensor& g, const Tensor& index, int dim, std::int64_t places);

}  // namespace mezzo
