// Sampling an image at places that a grid names: grid_sample, and affine_grid, which makes such grids.
// Sees: op.h.
// Read next: grid_sample.cpp (shape rules), ../cpu/grid_sample.cpp (kernels), ../../autograd/rules/grid_sample.cpp (rules).
#pragma once

#include "../op.h"

namespace mezzo {

/** How a sample between the elements of an image is made. */
enum class GridSampleMode : std::uint8_t { bilinear, nearest, bicubic };

/** What lies around the image: nothing, its outermost elements, or its mirror image. */
enum class GridSamplePadding : std::uint8_t { zeros, border, reflection };

namespace op {

struct GridSampleAttrs {
  GridSampleMode mode = GridSampleMode::bilinear;
  GridSamplePadding padding = GridSamplePadding::zeros;
  bool align_corners = false;  // -1 and 1 are the middles of the outermost elements, not their outer edges
};

/** Operands: x (n,c,h,w) and grid (n,h',w',2) of places (x,y) in -1..1, or x (n,c,d,h,w) and grid (n,d',h',w',3) of (x,y,z). */
struct GridSample {
  static constexpr OpTraits traits{.name = "grid_sample",
                                   .precision = Precision::widest,
                                   .summary = "an image sampled at the places of a grid",
                                   .inputs = 2,
                                   .needs = {input(0) | input(1), input(0) | input(1)},
                                   .twice_differentiable = false};
  using Attrs = GridSampleAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Both gradients. Operands: g, x, grid. Sums run in f32 (f64) in a fixed order and are rounded once. */
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

/** Operand: theta (n,2,3) or (n,3,4). The grid of an image's places after an affine map. */
struct AffineGrid {
  static constexpr OpTraits traits{
      .name = "affine_grid", .precision = Precision::match, .summary = "the grid of an affine map"};
  struct Attrs {
    Shape size;  // of the image: n, c, then its sizes
    bool align_corners = false;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using GridSampleOps = type_list<AffineGrid, GridSample, GridSampleBackward>;

}  // namespace op

}  // namespace mezzo
