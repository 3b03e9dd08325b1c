// Indexing that names whole rows: index_select, index (x[i, mask, ...]), index_put, index_add, masked_select, nonzero.
// Sees: tensor.
// Read next: gather.h (an index for each element), embedding.h, ../../tensor/ops/index.h.
#pragma once

#include <vector>

#include "../../tensor/tensor.h"

namespace mezzo {

/** The rows of x along `dim` that a 1-D (or 0-dim) index names, a row-major copy.
 *  Shape: x's, with the index's size along dim. index: i64 or i32, 0..size-1.
 *  Precision: follows x.   Gradient: g added to zeros at the rows, in f32, rounded once.
 *  Errors: ShapeError, DtypeError, IndexError (names the first index out of range). */
MZ_API Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& index);

struct IndexAddOptions {
  double alpha = 1;  // factor of the source
};

/** x with alpha * src added to the rows a 1-D (or 0-dim) index names, summed in f32 (f64, integers in i64) in index order, rounded once.
 *  Shape: src is x's, with the index's size along dim. src has x's dtype.
 *  Precision: follows x.   Gradient: g; for src, alpha times the rows of g.   Errors: ShapeError, DtypeError, IndexError. */
MZ_API Tensor index_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src,
                        const IndexAddOptions& options = {});
MZ_API const Tensor& index_add_(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& src,
                                const IndexAddOptions& options = {});

/** x[i, j, ...]: index k of the list indexes dimension k; an undefined tensor is a hole and keeps its dimension whole. Integer indices broadcast
 *  together, negative ones count from the end; a bool mask covers as many dimensions as it has and stands for the places where it holds.
 *  Shape: the broadcast indices' dimensions stand where the indexed ones stood if those are neighbours, else in front; the rest follows.
 *  Precision: follows x.   Gradient: g added to zeros at the places, in f32, rounded once.
 *  Errors: DtypeError, ShapeError, IndexError (names the first index out of range). A bool mask synchronises with the device. */
MZ_API Tensor index(const Tensor& x, const std::vector<Tensor>& indices);

struct IndexPutOptions {
  bool accumulate = false;  // add to what is there instead of overwriting it
};

/** x with `values`, broadcast, at the places that index(x, indices) reads. Without accumulate, of several writes to one place the last in index
 *  order stays; with it they are summed in f32 (f64, integers in i64) and rounded once.
 *  Precision: widest of x and values; in place self's dtype.
 *  Gradient: g with those places 0 (accumulate: g); for values, g at the places, 0 where a later one
 *  overwrote them.   Errors: as index, and ShapeError for the values. */
MZ_API Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
                        const IndexPutOptions& options = {});
MZ_API const Tensor& index_put_(const Tensor& self, const std::vector<Tensor>& indices, const Tensor& values,
                                const IndexPutOptions& options = {});

/** The elements of x where the bool mask holds, in row-major order; x and mask broadcast.
 *  Shape: [count].   Precision: follows x.   Gradient: g scattered back.   Errors: ShapeError, DtypeError. Synchronises with the device. */
MZ_API Tensor masked_select(const Tensor& x, const Tensor& mask);

/** Coordinates of the non-zero elements in row-major order; nan counts as non-zero.
 *  Shape: i64 [count, rank of x].   Gradient: none. Synchronises with the device. */
MZ_API Tensor nonzero(const Tensor& x);

}  // namespace mezzo
