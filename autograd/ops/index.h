// Indexing by rows, masks and several indices: index_select, index (x[i, mask, ...]), index_put,
// index_add, masked_select, nonzero. ops.h explains the notation and the precision tags.
// See also: gather.h (one index per element), embedding.h.
#pragma once

#include <vector>

#include "../../tensor/core/tensor.h"

namespace mezzo {

/** Returns a row-major copy of the rows of x along `dim` that a 1-D (or 0-dim) index selects.
 *  Shape: x's, with the index's size along dim. index: i64 or i32, 0..size-1.
 *  Precision: match.
 *  Gradient: g added to zeros at the rows, in f32, rounded once.
 *  Errors: ShapeError, DtypeError; IndexError (names the first index out of range). */
MZ_API Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);

/** Options of index_add. */
struct IndexAddOptions {
  double alpha = 1;  // factor of the source
};

/** Returns x with alpha * src added to the rows along `dim` that a 1-D (or 0-dim) index selects,
 *  summed in f32 (f64; integers in i64) in index order, rounded once.
 *  Shape: x's. src is x's, with the index's size along dim, and has x's dtype.
 *  Precision: match.
 *  Gradient: g for x; for src, alpha times the rows of g.
 *  Errors: ShapeError, DtypeError, IndexError. */
MZ_API Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                        const IndexAddOptions& options = {});
/** Overwrites self with index_add(self, dim, index, src, options) and returns it. */
MZ_API const Tensor& index_add_(const Tensor& self, std::int64_t dim, const Tensor& index,
                                const Tensor& src, const IndexAddOptions& options = {});

/** Returns x[i, j, ...]: index k of the list indexes dimension k; an undefined tensor keeps its
 *  dimension whole, like `:` in Python. Integer indices broadcast together; negative ones count
 *  from the end. A bool mask covers as many dimensions as it has, and selects the positions where
 *  it is true; it synchronises with the device.
 *  Shape: the dimensions of the broadcast indices replace the indexed ones if those are adjacent;
 *  otherwise they come first. The other dimensions follow in order.
 *  Precision: match.
 *  Gradient: g added to zeros at the positions, in f32, rounded once.
 *  Errors: DtypeError, ShapeError; IndexError (names the first index out of range). */
MZ_API Tensor index(const Tensor& x, const std::vector<Tensor>& indices);

/** Options of index_put. */
struct IndexPutOptions {
  bool accumulate = false;  // add to the elements instead of overwriting them
};

/** Returns x with `values`, broadcast, at the positions that index(x, indices) reads. Without
 *  accumulate, where several write to one position, the last in index order is kept. With it they
 *  are summed in f32 (f64; integers in i64) and rounded once.
 *  Precision: promote of x and values; in place self's dtype.
 *  Gradient: for x, g with 0 at those positions (with accumulate: g); for values, g at the
 *  positions, 0 where a later one overwrote them.
 *  Errors: as index, and ShapeError for the values. */
MZ_API Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
                        const IndexPutOptions& options = {});
/** Overwrites self with index_put(self, indices, values, options) and returns it. */
MZ_API const Tensor& index_put_(const Tensor& self, const std::vector<Tensor>& indices,
                                const Tensor& values, const IndexPutOptions& options = {});

/** Returns the elements of x where the bool mask is true, in row-major order; x and mask broadcast.
 *  Synchronises with the device.
 *  Shape: [count].
 *  Precision: match.
 *  Gradient: g scattered to the selected positions.
 *  Errors: ShapeError, DtypeError. */
MZ_API Tensor masked_select(const Tensor& x, const Tensor& mask);

/** Returns the coordinates of the nonzero elements in row-major order; nan counts as nonzero.
 *  Synchronises with the device.
 *  Shape: i64 [count, rank of x].
 *  Gradient: none. */
MZ_API Tensor nonzero(const Tensor& x);

}  // namespace mezzo
