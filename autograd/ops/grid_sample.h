// Sampling images and volumes at given positions. ops.h explains the notation and the precision
// tags.
#pragma once

#include "../../tensor/core/tensor.h"
#include "../../tensor/ops/grid_sample.h"

namespace mezzo {

/** Options of grid_sample. */
struct GridSampleOptions {
  GridSampleMode mode = GridSampleMode::bilinear;  // in three dimensions bilinear means trilinear
  GridSamplePadding padding_mode = GridSamplePadding::zeros;  // values for positions outside of x
  /** True: -1 and 1 are the centres of the outermost elements. False: their outer edges. */
  bool align_corners = false;
};

/** Samples x at the positions in a grid; -1..1 spans each dimension from end to end. padding_mode
 *  gives the values for positions outside. Non-finite positions count as outside and have a finite
 *  gradient; PyTorch 2.15 returns nan for them, or reads outside of x and crashes.
 *  Shape: x [n,c,h,w] and grid [n,h',w',2] of (x,y), or x [n,c,d,h,w] and grid [n,d',h',w',3] of
 *  (x,y,z); returns [n,c,...] with the grid's sizes.
 *  Precision: promote; computed in f32 (f64), one rounding.
 *  Gradient: for x, g distributed by the interpolation weights in a fixed order; for grid, by the
 *  slopes of the weights, 0 where a position was moved to the border and in mode nearest. First
 *  order only.
 *  Errors: ShapeError, DtypeError.
 *  Source: Jaderberg et al., arXiv:1506.02025. */
MZ_API Tensor grid_sample(const Tensor& x, const Tensor& grid,
                          const GridSampleOptions& options = {});

/** Options of affine_grid. */
struct AffineGridOptions {
  bool align_corners = false;  // as in grid_sample
};

/** Returns the sampling grid of an affine map, for grid_sample.
 *  Shape: theta [n,2,3] and size {n,c,h,w} give [n,h,w,2]; theta [n,3,4] and size {n,c,d,h,w} give
 *  [n,d,h,w,3].
 *  Precision: match, for theta; computed in f32 (f64), one rounding.
 *  Gradient: that of the matrix product.
 *  Errors: ShapeError, DtypeError. */
MZ_API Tensor affine_grid(const Tensor& theta, const Shape& size,
                          const AffineGridOptions& options = {});

}  // namespace mezzo
