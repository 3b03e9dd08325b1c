// Of several rows written to one place the last stays: only that one receives the place's gradient.
// Sees: tensor.
// Read next: overwrite.cpp, index.cpp.
#pragma once

#include "../../tensor/tensor.h"

namespace mezzo {

/** g, the gradients of rows that were written to the places `index` names (below `places`), with zeros
 *  for rows that a later one overwrote. The index's dimensions are those of g from `dim` on. */
Tensor without_overwritten(const Tensor& g, const Tensor& index, int dim, std::int64_t places);

}  // namespace mezzo
