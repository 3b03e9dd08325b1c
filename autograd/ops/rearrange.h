// Reordering, repeating and selecting parts of tensors. All of these copy; views are methods of
// Tensor. ops.h explains the notation and the precision tags.
#pragma once

#include "../../tensor/core/tensor.h"
#include "reduce.h"

namespace mezzo {

/** Returns a matrix of zeros with a vector as its diagonal, or a copy of the diagonal of a matrix.
 *  The diagonal is `diagonal` places right of the main one (left when negative).
 *  Precision: match, exact.
 *  Gradient: for a vector, the diagonal of g; for a matrix, zeros with g as the diagonal.
 *  Errors: ShapeError unless x is 1-D or 2-D. */
MZ_API Tensor diag(const Tensor& x, std::int64_t diagonal = 0);

/** Returns x with the elements along `dims` in reverse order.
 *  Precision: match, exact.
 *  Gradient: flip of g.
 *  Errors: IndexError. */
MZ_API Tensor flip(const Tensor& x, const Dims& dims);

/** Returns, for every class in x, a row of zeros with a one at the class, i64. A row has `classes`
 *  columns; -1 counts as many as are needed, which synchronises with the device.
 *  Shape: x's and one more dimension.
 *  Gradient: none.
 *  Errors: IndexError for a class out of range; DtypeError unless x is i64 or i32; ValueError for
 *  classes < 1, or where they are to be counted and x is empty. */
MZ_API Tensor one_hot(const Tensor& x, std::int64_t classes = -1);

/** Rearranges x [..., c r^2, h, w] to [..., c, h r, w r]: channel c r^2 + i r + j becomes the
 *  pixels (i, j) of blocks of r x r.
 *  Precision: match, exact.
 *  Gradient: pixel_unshuffle of g.
 *  Errors: ShapeError; ValueError for a factor < 1.
 *  Source: arXiv:1609.05158. */
MZ_API Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor);
/** Rearranges x [..., c, h r, w r] to [..., c r^2, h, w]: the inverse of pixel_shuffle. */
MZ_API Tensor pixel_unshuffle(const Tensor& x, std::int64_t downscale_factor);

/** Returns x repeated repeats[i] times along dimension i. If there are more repeats than
 *  dimensions, dimensions of size 1 are put in front.
 *  Precision: match, exact.
 *  Gradient: the sum of g over all copies, in f32 (f64), rounded once.
 *  Errors: ShapeError for fewer repeats than dimensions; ValueError for negative ones;
 *  SizeError. */
MZ_API Tensor repeat(const Tensor& x, const Shape& repeats);

/** Returns x with its elements moved by shifts[i] places along dims[i]; elements moved beyond the
 *  end re-enter at the other end. Without dims, x is rolled as if flattened.
 *  Precision: match, exact.
 *  Gradient: g rolled back.
 *  Errors: IndexError; ValueError unless there are as many shifts as dims. */
MZ_API Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {});

/** Returns the sum of a matrix's diagonal.
 *  Precision: match, summed in f32 (f64); integers give i64.
 *  Gradient: g on the diagonal.
 *  Errors: ShapeError unless x is 2-D. */
MZ_API Tensor trace(const Tensor& x);

/** Returns x with zeros right of a diagonal of the last two dimensions, which is `diagonal` places
 *  right of the main one.
 *  Precision: match, exact.
 *  Gradient: tril of g.
 *  Errors: ShapeError for fewer than 2 dimensions. */
MZ_API Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
/** Returns x with zeros left of that diagonal. Otherwise as tril. */
MZ_API Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

}  // namespace mezzo
