// Cumulative extremes along a dimension, and the median. ops.h explains the notation and the
// precision tags.
#pragma once

#include "reduce.h"

namespace mezzo {

/** Returns the largest element up to each position along `dim`, and its index, that of the last
 *  among equals. From the first nan on, the result is nan.
 *  Shape: x's.
 *  Precision: match, exact.
 *  Gradient: g added to the chosen elements in f32 (f64), rounded once.
 *  Errors: IndexError. */
MZ_API ValuesAndIndices cummax(const Tensor& x, std::int64_t dim);
/** Returns the smallest element up to each position along `dim`, and its index. Otherwise as
 *  cummax. */
MZ_API ValuesAndIndices cummin(const Tensor& x, std::int64_t dim);

/** Returns the median of all elements, the lower of two middle ones; nan if there is one.
 *  Precision: match, exact.
 *  Gradient: g goes to the chosen element only.
 *  Errors: ShapeError when there is no element. */
MZ_API Tensor median(const Tensor& x);
/** Returns the medians along `dim` and their indices (i64). Which of several equal elements is
 *  chosen is deterministic but not specified.
 *  Errors: IndexError; ShapeError when there is no element. */
MZ_API ValuesAndIndices median(const Tensor& x, std::int64_t dim,
                               const KeepDimOptions& options = {});

}  // namespace mezzo
