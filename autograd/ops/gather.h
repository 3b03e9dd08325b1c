// Indexing with one index for each element: gather, scatter, scatter_add, take_along_dim.
// Sees: tensor.
// Read next: index.h (indices that name whole rows), ../../tensor/ops/gather.h.
#pragma once

#include <optional>

#include "../../tensor/tensor.h"

namespace mezzo {

/** For each element of index, the element of x at the same place but with that index along `dim`:
 *  out[i][j] = x[index[i][j]][j] for dim 0, x[i][index[i][j]] for dim 1.
 *  Shape: index has x's rank and sizes no larger than x's except along dim; returns index's shape. index: i64 or i32, 0..size-1.
 *  Precision: follows x.   Gradient: g added to zeros at the indices, in f32, rounded once.
 *  Errors: ShapeError, DtypeError, IndexError (names the first index out of range). */
MZ_API Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index);

/** gather where x and index broadcast against each other in every dimension but `dim`; without dim, over the flattened x and index.
 *  Shape: equal ranks.   Precision, gradient, errors: as gather. */
MZ_API Tensor take_along_dim(const Tensor& x, const Tensor& index, std::optional<std::int64_t> dim = {});

/** x with src written to the places that gather would read; of several writes to one place the last in index order stays.
 *  Shape: index as for gather, src at least as large as index in every dimension; returns x's shape. src has x's dtype.
 *  Precision: follows x.   Gradient: g with those places 0; for src, g gathered at the indices, also
 *  where a later element overwrote it, as in PyTorch (max_unpool is defined by it).
 *  Errors: ShapeError, DtypeError, IndexError. */
MZ_API Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
/** The same with one value for all places, taken in x's dtype. */
MZ_API Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, double value);
MZ_API const Tensor& scatter_(const Tensor& self, std::int64_t dim, const Tensor& index, const Tensor& src);
MZ_API const Tensor& scatter_(const Tensor& self, std::int64_t dim, const Tensor& index, double value);

/** x with src added at the places that gather would read, summed in f32 (f64, integers in i64) in index order and rounded once.
 *  Shape: as scatter.   Precision: widest; in place self's dtype.   Gradient: g; for src, g gathered at the indices.
 *  Errors: ShapeError, DtypeError, IndexError. */
MZ_API Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& src);
MZ_API const Tensor& scatter_add_(const Tensor& self, std::int64_t dim, const Tensor& index,
                                  const Tensor& src);

}  // namespace mezzo
