// Ordering elements along a dimension: sort, argsort, topk, kthvalue. ops.h explains the notation
// and the precision tags.
//
// In all of them nan counts as largest, -0 equals +0, and equal elements keep the order of their
// indices, in descending order too.
#pragma once

#include "reduce.h"

namespace mezzo {

/** Options of sort and argsort. */
struct SortOptions {
  std::int64_t dim = -1;    // the dimension to sort along
  bool descending = false;  // largest first
};

/** Returns the elements along a dimension in order, and the index (i64) that each came from;
 *  stable.
 *  Shape: x's, for both results.
 *  Precision: match.
 *  Gradient: g scattered to the indices.
 *  Errors: IndexError for a bad dimension. */
MZ_API ValuesAndIndices sort(const Tensor& x, const SortOptions& options = {});

/** Returns the indices (i64) that sort returns. */
MZ_API Tensor argsort(const Tensor& x, const SortOptions& options = {});

/** Options of topk. */
struct TopkOptions {
  std::int64_t dim = -1;  // the dimension to search along
  bool largest = true;    // false: the smallest
  bool sorted = true;     // false: in the order of their indices
};

/** Returns the k largest (smallest) elements along a dimension and their indices (i64); among
 *  equals those of lower index.
 *  Shape: x's, with size k along the dimension.
 *  Precision: match.
 *  Gradient: g scattered to the indices.
 *  Errors: ValueError unless 0 <= k <= size; IndexError for a bad dimension. */
MZ_API ValuesAndIndices topk(const Tensor& x, std::int64_t k, const TopkOptions& options = {});

/** Options of kthvalue. */
struct KthvalueOptions {
  std::int64_t dim = -1;  // the dimension to search along
  bool keepdim = false;   // keep the dimension, with size 1
};

/** Returns the k-th smallest element along a dimension, counted from 1, and its index (i64).
 *  Shape: x's without the dimension (with size 1 if keepdim).
 *  Precision: match.
 *  Gradient: g scattered to the index.
 *  Errors: ValueError unless 1 <= k <= size; IndexError for a bad dimension. */
MZ_API ValuesAndIndices kthvalue(const Tensor& x, std::int64_t k,
                                 const KthvalueOptions& options = {});

}  // namespace mezzo
