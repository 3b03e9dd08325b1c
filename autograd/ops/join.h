// Joining tensors.
// Sees: tensor.
// Read next: ../../tensor/ops/join.h.
#pragma once

#include <vector>

#include "../../tensor/tensor.h"

namespace mezzo {

/** The tensors one after another along `dim`, a row-major copy. 1-D tensors of size 0 are passed over.
 *  Shape: equal sizes except along dim.   Precision: widest: promotes to the widest dtype present.
 *  Gradient: slices of g, each in its operand's dtype.
 *  Errors: ValueError for an empty list, ShapeError (0-dim tensors included), IndexError for a bad dimension. */
MZ_API Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);

/** The tensors along a new dimension `dim` of the result.
 *  Shape: all equal; the result has one dimension more.   Precision, gradient: as cat.
 *  Errors: ValueError for an empty list, ShapeError, IndexError for a bad dimension. */
MZ_API Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);

}  // namespace mezzo
