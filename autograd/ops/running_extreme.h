// Running extremes along a dimension, and the median.
// Sees: reduce.h.
// Read next: sort.h, ../../tensor/ops/running_extreme.h.
#pragma once

#include "reduce.h"

namespace mezzo {

/** The greatest element so far along `dim`, and its index: the last one of equals; once a nan has been met it stays.
 *  Shape: kept. Precision: follows the input, exact. Gradient: added to the chosen elements in f32 (f64), rounded once. Errors: IndexError. */
MZ_API ValuesAndIndices cummax(const Tensor& x, std::int64_t dim);
/** The least element so far; as cummax. */
MZ_API ValuesAndIndices cummin(const Tensor& x, std::int64_t dim);

/** The middle one of all elements in order, the lower of two in the middle; nan if there is one.
 *  Precision: follows the input, exact. Gradient: to the chosen element alone. Errors: ShapeError when there is none. */
MZ_API Tensor median(const Tensor& x);
/** The same along `dim`, and the indices (i64); which of several equals is chosen is fixed but not specified. Errors: IndexError too. */
MZ_API ValuesAndIndices median(const Tensor& x, std::int64_t dim, const KeepDimOptions& options = {});

}  // namespace mezzo
