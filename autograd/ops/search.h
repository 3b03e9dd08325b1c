// Looking values up: searchsorted, bucketize, isin, bincount. ops.h explains the notation and the
// precision tags.
#pragma once

#include "number.h"

namespace mezzo {

/** Options of searchsorted. */
struct SearchsortedOptions {
  bool right = false;      // the index after equal elements; false: before them
  bool out_int32 = false;  // i32 results; false: i64
  Tensor sorter = {};      // i64: the order that sorts the sequence, as argsort returns it
};

/** Returns, for each value, the index at which it would be inserted into the sequence so that the
 *  sequence stays sorted. nan counts as greatest, as in sort. Unlike PyTorch, a nan in the sequence
 *  does not attract smaller values.
 *  Shape: the values'. The sequence is 1-D, or one per line: then all sizes but the last are equal.
 *  Precision: match; compared in the promoted dtype.
 *  Gradient: none.
 *  Errors: ShapeError; SizeError for out_int32 and 2^31 or more.
 */
MZ_API Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& values,
                           const SearchsortedOptions& options = {});
/** Does the same for a number; the result is 0-dim. */
template <Number S>
Tensor searchsorted(const Tensor& sorted_sequence, S value,
                    const SearchsortedOptions& options = {}) {
  return searchsorted(sorted_sequence, operand(value), options);
}

/** Options of bucketize. */
struct BucketizeOptions {
  bool right = false;      // bucket i holds boundaries[i-1] <= x < boundaries[i]; false: < and <=
  bool out_int32 = false;  // i32 results; false: i64
};

/** Returns the number of the bucket between the sorted boundaries that each element is in: 0 below
 *  the first, boundaries.numel() above the last. As searchsorted(boundaries, x).
 *  Errors: ShapeError unless the boundaries are 1-D; as searchsorted. */
MZ_API Tensor bucketize(const Tensor& x, const Tensor& boundaries,
                        const BucketizeOptions& options = {});

/** Options of isin. */
struct IsinOptions {
  bool invert = false;  // true where the element is not in the list
};

/** Returns, as bool, whether each element equals one of `test_elements`; nan equals nothing.
 *  Shape: the elements'. The list has any shape.
 *  Precision: match; compared exactly in the promoted dtype. Memory: O(elements + list).
 *  Gradient: none. */
MZ_API Tensor isin(const Tensor& elements, const Tensor& test_elements,
                   const IsinOptions& options = {});

/** Options of bincount. */
struct BincountOptions {
  Tensor weights = {};         // added instead of 1; of x's shape
  std::int64_t minlength = 0;  // the least size of the result
};

/** Returns how often each of 0, 1, ..., max(x) is in x, or the sum of its weights. Waits for a
 *  device to read the size of the result.
 *  Shape: x [n]; the result has max(minlength, max(x) + 1) elements.
 *  Precision: match; gives i64, or f32 for weights in f32, f64 for others.
 *  Gradient: none.
 *  Errors: ShapeError unless x is 1-D and the weights have its shape; DtypeError unless x is
 *  integer; ValueError for negative numbers and a negative minlength. */
MZ_API Tensor bincount(const Tensor& x, const BincountOptions& options = {});

}  // namespace mezzo
