// Sampling images and volumes at given places.
// Sees: tensor.
// Read next: interpolate.h, ../../tensor/ops/grid_sample.h.
#pragma once

#include "../../tensor/ops/grid_sample.h"
#include "../../tensor/tensor.h"

namespace mezzo {

struct GridSampleOptions {
  GridSampleMode mode = GridSampleMode::bilinear;  // over three dimensions bilinear means trilinear
  GridSamplePadding padding_mode = GridSamplePadding::zeros;
  bool align_corners = false;  // -1 and 1 are the middles of the outermost elements, not their outer edges
};

/** x sampled at the places of a grid, in -1..1 from end to end of each dimension.
 *  Shape: x [n,c,h,w] and grid [n,h',w',2] of (x,y), or x [n,c,d,h,w] and grid [n,d',h',w',3] of (x,y,z); returns [n,c,...grid's sizes].
 *  Places outside are what padding_mode says; those that are not finite count as outside, and their
 *  gradient is finite. PyTorch 2.15 is no model here: it gives nan, or reads outside of x and crashes.
 *  Precision: widest of both; f32 (f64) inside, one rounding.
 *  Gradient: to x by the weights, in a fixed order; to the grid by their slopes, 0 where a place was moved to the border and in mode nearest.
 *  First order only.   Errors: ShapeError, DtypeError.   Source: Jaderberg et al., arXiv:1506.02025. */
MZ_API Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});

struct AffineGridOptions {
  bool align_corners = false;  // as in grid_sample
};

/** The grid that shows an image after an affine map of its places.
 *  Shape: theta [n,2,3] and size {n,c,h,w}; returns [n,h,w,2]. Or theta [n,3,4] and size {n,c,d,h,w}; returns [n,d,h,w,3].
 *  Precision: follows theta; f32 (f64) inside, one rounding.   Gradient: of the product.   Errors: ShapeError, DtypeError. */
MZ_API Tensor affine_grid(const Tensor& theta, const Shape& size, const AffineGridOptions& options = {});

}  // namespace mezzo
