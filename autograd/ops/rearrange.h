// Reordering, repeating and selecting parts of tensors. All of these copy; views are methods of Tensor.
// Sees: tensor, reduce.h.
// Read next: pad.h, ../../tensor/ops/place.h.
#pragma once

#include "../../tensor/tensor.h"
#include "reduce.h"

namespace mezzo {

/** A vector as the diagonal of a matrix of zeros, `diagonal` places right of the main one (left when negative); of a matrix, a copy of that
 *  diagonal. Precision: follows x, exact. Gradient: the other way round. Errors: ShapeError unless 1-D or 2-D. */
MZ_API Tensor diag(const Tensor& x, std::int64_t diagonal = 0);

/** x with the order of the elements along `dims` reversed. Precision: follows x, exact. Gradient: flip of g. Errors: IndexError. */
MZ_API Tensor flip(const Tensor& x, const Dims& dims);

/** For every class a row of zeros with a one at the class, i64; `classes` columns, or as many as are needed.
 *  Shape: x's and one more dimension. Gradient: none. Errors: IndexError for a class out of range; DtypeError unless i64 or i32; ValueError for
 *  classes < 1, or where they are to be counted and there are none. Counting synchronises with the device. */
MZ_API Tensor one_hot(const Tensor& x, std::int64_t classes = -1);

/** x [..., c r^2, h, w] as [..., c, h r, w r]: channel c r^2 + i r + j becomes the pixels (i, j) of blocks of r x r.
 *  Precision: follows x, exact. Gradient: pixel_unshuffle of g. Errors: ShapeError, ValueError for a factor < 1. Source: arXiv:1609.05158. */
MZ_API Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor);
/** The inverse: x [..., c, h r, w r] as [..., c r^2, h, w]. */
MZ_API Tensor pixel_unshuffle(const Tensor& x, std::int64_t downscale_factor);

/** x side by side with itself, repeats[i] times along dimension i; dimensions of size 1 are put in front where there are more repeats.
 *  Precision: follows x, exact. Gradient: the sum over all copies, in f32 (f64), rounded once.
 *  Errors: ShapeError for fewer repeats than dimensions, ValueError for negative ones, SizeError. */
MZ_API Tensor repeat(const Tensor& x, const Shape& repeats);

/** x with its elements moved by shifts[i] places along dims[i]; those pushed out enter at the other end. Without dims, over the flattened x.
 *  Precision: follows x, exact. Gradient: rolled back. Errors: IndexError; ValueError unless there are as many shifts as dims. */
MZ_API Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {});

/** Sum of a matrix's diagonal. Precision: follows x, summed in f32 (f64); integers give i64. Gradient: g on the diagonal.
 *  Errors: ShapeError unless 2-D. */
MZ_API Tensor trace(const Tensor& x);

/** x with zeros right of a diagonal of the last two dimensions, itself `diagonal` places right of the main one.
 *  Precision: follows x, exact. Gradient: tril of g. Errors: ShapeError for fewer than 2 dimensions. */
MZ_API Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
/** The same with zeros left of the diagonal. */
MZ_API Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

}  // namespace mezzo
