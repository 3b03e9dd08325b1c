// Indexing with one index per element: gather, scatter, scatter_add, take_along_dim. ops.h explains
// the notation and the precision tags.
// See also: index.h (indices that select whole rows).
#pragma once

#include <optional>

#include "../../tensor/core/tensor.h"

namespace mezzo {

/** Returns, for each element of index, the element of x at the same position but with that index
 *  along `dim`: out[i][j] = x[index[i][j]][j] for dim 0, x[i][index[i][j]] for dim 1.
 *  Shape: that of index, which has x's rank, and sizes no larger than x's except along dim. index:
 *  i64 or i32, 0..size-1.
 *  Precision: match.
 *  Gradient: g added to zeros at the indices, in f32, rounded once.
 *  Errors: ShapeError, DtypeError; IndexError (names the first index out of range). */
MZ_API Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);

/** Does a gather in which x and index broadcast against each other in every dimension but `dim`.
 *  Without dim, x and index are flattened first.
 *  Shape: equal ranks.
 *  Precision, gradient and errors: as gather. */
MZ_API Tensor take_along_dim(const Tensor& x, const Tensor& index,
                             std::optional<std::int64_t> dim = {});

/** Returns x with the elements of src written to the positions that gather would read. Where
 *  several write to one position, the last in index order is kept.
 *  Shape: x's. index as for gather; src is at least as large as index in every dimension and has
 *  x's dtype.
 *  Precision: match.
 *  Gradient: for x, g with 0 at the written positions; for src, g gathered at the indices, also
 *  where a later element overwrote it, as in PyTorch (max_unpool is defined by it).
 *  Errors: ShapeError, DtypeError, IndexError. */
MZ_API Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
/** Writes one value, rounded to x's dtype, to all positions. */
MZ_API Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, double value);
/** Overwrites self with scatter(self, dim, index, src) and returns it. */
MZ_API const Tensor& scatter_(const Tensor& self, std::int64_t dim, const Tensor& index,
                              const Tensor& src);
/** Overwrites self with scatter(self, dim, index, value) and returns it. */
MZ_API const Tensor& scatter_(const Tensor& self, std::int64_t dim, const Tensor& index,
                              double value);

/** Returns x with the elements of src added at the positions that gather would read, summed in f32
 *  (f64; integers in i64) in index order and rounded once.
 *  Shape: as scatter.
 *  Precision: promote; in place self's dtype.
 *  Gradient: g for x; for src, g gathered at the indices.
 *  Errors: ShapeError, DtypeError, IndexError. */
MZ_API Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index,
                          const Tensor& src);
/** Overwrites self with scatter_add(self, dim, index, src) and returns it. */
MZ_API const Tensor& scatter_add_(const Tensor& self, std::int64_t dim, const Tensor& index,
                                  const Tensor& src);

}  // namespace mezzo
