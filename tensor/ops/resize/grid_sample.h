// Sampling images and volumes at given positions. ops.h explains the notation and the precision
// tags.
#pragma once

#include "../../core/op.h"
#include "../../core/tensor.h"

namespace mezzo {

/** How a sample between the elements of an image is interpolated. */
enum class GridSampleMode : std::uint8_t { bilinear, nearest, bicubic };

/** Values outside the image: zeros, the border elements, or the image reflected. */
enum class GridSamplePadding : std::uint8_t { zeros, border, reflection };

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

// Sampling of an image at the positions of a grid: grid_sample, and affine_grid, which makes such
// grids.

namespace op {

struct GridSampleAttrs {
  GridSampleMode mode = GridSampleMode::bilinear;
  GridSamplePadding padding = GridSamplePadding::zeros;
  // Whether -1 and 1 are the centres of the border elements rather than their outer edges.
  bool align_corners = false;
};

/** Samples of an image. Operands: x (n,c,h,w) and grid (n,h',w',2) of positions (x,y) in -1..1, or
 *  x (n,c,d,h,w) and grid (n,d',h',w',3) of (x,y,z). */
struct GridSample {
  static constexpr OpTraits traits{.name = "grid_sample",
                                   .precision = Precision::promote,
                                   .summary = "an image sampled at the points of a grid",
                                   .inputs = 2,
                                   .needs = {input(0) | input(1), input(0) | input(1)},
                                   .twice_differentiable = false};
  using Attrs = GridSampleAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Gradients of x and the grid. Operands: g, x, grid. Sums run in f32 (f64) in a fixed order and
 *  are rounded once. */
struct GridSampleBackward {
  static constexpr OpTraits traits{.name = "grid_sample_backward",
                                   .precision = Precision::match,
                                   .inputs = 3,
                                   .outputs = 2,
                                   .differentiable = false,
                                   .internal = true};
  struct Attrs {
    GridSampleAttrs sampling;
    bool wants_x = true, wants_grid = true;  // an output that is not wanted is empty
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** The sampling grid of an affine map of an image. Operand: theta (n,2,3) or (n,3,4). */
struct AffineGrid {
  static constexpr OpTraits traits{.name = "affine_grid",
                                   .precision = Precision::match,
                                   .summary = "sampling grid of an affine map, for grid_sample"};
  struct Attrs {
    Shape size;  // of the image: n, c, then its spatial sizes
    bool align_corners = false;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using GridSampleOps = type_list<AffineGrid, GridSample, GridSampleBackward>;

}  // namespace op

}  // namespace mezzo
