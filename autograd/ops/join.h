// Joining tensors: cat, stack, hstack and vstack. ops.h explains the notation and the precision
// tags.
#pragma once

#include <vector>

#include "../../tensor/core/tensor.h"

namespace mezzo {

/** Concatenates tensors along `dim` into a row-major tensor. 1-D tensors of size 0 are skipped.
 *  Shape: equal sizes except along dim.
 *  Precision: promote.
 *  Gradient: slices of g, each in its operand's dtype.
 *  Errors: ValueError for an empty list; ShapeError (0-dim tensors included); IndexError for a bad
 *  dimension. */
MZ_API Tensor cat(const std::vector<Tensor>& tensors, std::int64_t dim = 0);

/** Joins tensors along a new dimension `dim` of the result.
 *  Shape: all equal; the result has one dimension more.
 *  Precision and gradient: as cat.
 *  Errors: ValueError for an empty list; ShapeError; IndexError for a bad dimension. */
MZ_API Tensor stack(const std::vector<Tensor>& tensors, std::int64_t dim = 0);

/** Joins tensors along dimension 1, or along 0 if they are 1-D; 0-dim tensors count as 1-D.
 *  Otherwise as cat. */
MZ_API Tensor hstack(const std::vector<Tensor>& tensors);

/** Joins tensors along dimension 0; a tensor of n < 2 dimensions counts as one row.
 *  Otherwise as cat. */
MZ_API Tensor vstack(const std::vector<Tensor>& tensors);

}  // namespace mezzo
