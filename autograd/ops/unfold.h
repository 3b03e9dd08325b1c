// Sliding blocks of an image as columns (im2col), and the inverse (col2im). ops.h explains the
// notation and the precision tags.
#pragma once

#include "../../tensor/core/tensor.h"
#include "window.h"

namespace mezzo {

/** Options of unfold and fold. */
struct UnfoldOptions {
  WindowSizes dilation = 1;  // distance between the elements of a block
  WindowSizes padding = 0;   // zeros on either side of the image
  WindowSizes stride = 1;    // distance between blocks
};

/** Returns each sliding block of an image as a column. For windows along one dimension,
 *  x.unfold(dim, size, step) returns a view.
 *  Shape: x [n,c,h,w] or [c,h,w]; returns [n, c * kh * kw, l] (unbatched [c * kh * kw, l]) for l
 *  blocks in row-major order.
 *  Precision: match, exact.
 *  Gradient: fold of g.
 *  Errors: ShapeError for a wrong number of dimensions or where no block fits; ValueError for
 *  options out of range. */
MZ_API Tensor unfold(const Tensor& x, const WindowSizes& kernel, const UnfoldOptions& options = {});

/** Adds each column at the position of its block in an image of `output` sizes: the adjoint of
 *  unfold.
 *  Shape: x [n, c * kh * kw, l] or [c * kh * kw, l]; returns [n,c,h,w] or [c,h,w].
 *  Precision: match; f16, bf16 and f32 are summed in f32, one rounding.
 *  Gradient: unfold of g.
 *  Errors: as unfold. */
MZ_API Tensor fold(const Tensor& x, const WindowSizes& output, const WindowSizes& kernel,
                   const UnfoldOptions& options = {});

}  // namespace mezzo
