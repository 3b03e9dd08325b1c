// Ordering elements along a dimension: sort, argsort, topk, kthvalue.
// Sees: tensor, reduce.h (ValuesAndIndices).
// Read next: ../../tensor/ops/sort.h.
#pragma once

#include "reduce.h"

namespace mezzo {

// In all of these nan counts as largest, -0 equals +0, and equal elements keep the order of their indices, in descending order too.

struct SortOptions {
  std::int64_t dim = -1;
  bool descending = false;
};

/** Elements along a dimension in order, and the index (i64) each came from; stable.
 *  Shape: any, both results have it.   Precision: follows x.   Gradient: g scattered to the indices.   Errors: IndexError for a bad dimension. */
MZ_API ValuesAndIndices sort(const Tensor& x, const SortOptions& options = {});

/** The indices (i64) that sort gives. */
MZ_API Tensor argsort(const Tensor& x, const SortOptions& options = {});

struct TopkOptions {
  std::int64_t dim = -1;
  bool largest = true;  // false: the smallest
  bool sorted = true;   // false: in the order of their indices
};

/** The k largest (smallest) elements along a dimension, and their indices (i64); among equals those of lower index.
 *  Shape: x's, with k along the dimension.   Precision: follows x.   Gradient: g scattered to the indices.
 *  Errors: ValueError unless 0 <= k <= size, IndexError for a bad dimension. */
MZ_API ValuesAndIndices topk(const Tensor& x, std::int64_t k, const TopkOptions& options = {});

struct KthvalueOptions {
  std::int64_t dim = -1;
  bool keepdim = false;
};

/** The k-th smallest element along a dimension, counted from 1, and its index (i64).
 *  Shape: x's without the dimension (of size 1 with keepdim).   Precision: follows x.   Gradient: g scattered to the index.
 *  Errors: ValueError unless 1 <= k <= size, IndexError for a bad dimension. */
MZ_API ValuesAndIndices kthvalue(const Tensor& x, std::int64_t k, const KthvalueOptions& options = {});

}  // namespace mezzo
