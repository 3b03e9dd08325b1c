// Sampling of an image at the positions of a grid: grid_sample, and affine_grid, which makes such
// grids.
#pragma once

#include "../core/op.h"

namespace mezzo {

/** How a sample between the elements of an image is interpolated. */
enum class GridSampleMode : std::uint8_t { bilinear, nearest, bicubic };

/** Values outside the image: zeros, the border elements, or the image reflected. */
enum class GridSamplePadding : std::uint8_t { zeros, border, reflection };

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
