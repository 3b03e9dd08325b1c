// Overwriting rows and masked elements, and finding distinct elements. ops.h explains the notation
// and the precision tags.
#pragma once

#include "../../tensor/core/tensor.h"
#include "number.h"

namespace mezzo {

/** Returns x with the rows of src written to the rows along `dim` that a 1-D (or 0-dim) index
 *  selects. Where several write to one row, the last in index order is kept.
 *  Shape: x's. src is x's, with the index's size along dim, and has x's dtype. index: i64 or i32,
 *  0..size-1.
 *  Precision: match, exact.
 *  Gradient: for x, g with 0 in those rows; for src, the rows of g, 0 where a later row overwrote
 *  one.
 *  Errors: ShapeError, DtypeError, IndexError. */
MZ_API Tensor index_copy(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
/** Overwrites self with index_copy(self, dim, index, src) and returns it. */
MZ_API const Tensor& index_copy_(const Tensor& self, std::int64_t dim, const Tensor& index,
                                 const Tensor& src);

/** Returns x with one value, a number or a 0-dim tensor, rounded to x's dtype, in the rows that the
 *  index selects. Otherwise as index_copy.
 *  Gradient: for the value, the sum of g over the selected rows, each counted once. */
MZ_API Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index,
                         const Tensor& value);
/** Overwrites self with index_fill(self, dim, index, value) and returns it. */
MZ_API const Tensor& index_fill_(const Tensor& self, std::int64_t dim, const Tensor& index,
                                 const Tensor& value);
/** Does the same with a C++ number as the value. */
template <Number S>
Tensor index_fill(const Tensor& x, std::int64_t dim, const Tensor& index, S value) {
  return index_fill(x, dim, index, operand(value));
}
/** Does the same in place with a C++ number as the value. */
template <Number S>
const Tensor& index_fill_(const Tensor& self, std::int64_t dim, const Tensor& index, S value) {
  return index_fill_(self, dim, index, operand(value));
}

/** Returns x with the elements of source, in row-major order, where the bool mask is true; x and
 *  mask broadcast. Synchronises with the device.
 *  Shape: the broadcast shape. source has x's dtype, and at least as many elements as the mask
 *  selects.
 *  Precision: match, exact.
 *  Gradient: for x, g with 0 at the selected positions; for source, g at them, 0 for unused
 *  elements.
 *  Errors: ShapeError, DtypeError. */
MZ_API Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);

/** Options of unique. */
struct UniqueOptions {
  bool sorted = true;  // ignored, for compatibility with PyTorch: the result is always sorted
  bool return_inverse = false;  // fill in UniqueResult::inverse
  bool return_counts = false;   // fill in UniqueResult::counts
};

/** The result of unique. */
struct UniqueResult {
  Tensor values;   // the distinct elements in ascending order, 1-D
  Tensor inverse;  // i64, of x's shape: each element's index in values; undefined by default
  Tensor counts;   // i64: how often each value occurs; undefined by default
};

/** Returns the distinct elements of x. Every nan is distinct and comes last; -0 and +0 are one
 *  element. Synchronises with the device.
 *  Precision: match.
 *  Gradient: none. */
MZ_API UniqueResult unique(const Tensor& x, const UniqueOptions& options = {});

}  // namespace mezzo
