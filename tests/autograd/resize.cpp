// Resizing and grid sampling where the generated tests do not reach: errors, exactness, non-finite
// positions, order of derivatives.
#include <mezzo.h>

#include <cmath>
#include <limits>

#include "../support/throws.h"
#include "support.h"

using namespace mezzo;

namespace {

using List = std::vector<double>;
using Mode = InterpolateMode;

}  // namespace

TEST_CASE("resizing to the same size returns the same values, next to infinities too") {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = tensor({0.1, inf, -0.3, 1e-30, 7.0, 0.7}, {1, 1, 2, 3});
  for (const Mode mode : {Mode::nearest, Mode::nearest_exact, Mode::bilinear, Mode::bicubic}) {
    CHECK(values(interpolate(x, {.scale_factor = 1, .mode = mode})) == values(x));
    CHECK(values(interpolate(x, {.size = {2, 3}, .mode = mode})) == values(x));
  }
  CHECK(values(interpolate(x, {.size = {2, 3}, .mode = Mode::bilinear, .align_corners = true})) ==
        values(x));
}

TEST_CASE("the resized size is floor(size * factor)") {
  const Tensor x = counting({1, 1, 10});
  CHECK(interpolate(x, {.scale_factor = 1.15}).size(2) == 11);
  CHECK(interpolate(x, {.scale_factor = 0.19}).size(2) == 1);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = 0.05}), ShapeError);
}

TEST_CASE("interpolate rejects contradictory options") {
  const Tensor x = counting({1, 1, 4, 4});
  CHECK_THROWS_WITH_AS_TEXT(
      interpolate(x, {}), ValueError,
      "interpolate: neither size nor scale_factor is given; expected one of them");
  CHECK_THROWS_WITH_AS_TEXT(interpolate(x, {.size = 2, .scale_factor = 2}), ValueError,
                            "interpolate: both size and scale_factor are given");
  CHECK_THROWS_WITH_AS_TEXT(interpolate(x, {.size = 2, .align_corners = true}), ValueError,
                            "interpolate: align_corners has no meaning in a nearest mode");
  CHECK_THROWS_WITH_AS_TEXT(upsample_nearest_exact(x, {.size = 2, .align_corners = true}),
                            ValueError, "upsample_nearest_exact: align_corners");
  CHECK_THROWS_AS(interpolate(x, {.size = 2, .antialias = true}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.size = 2, .recompute_scale_factor = true}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.size = {2, 2, 2}}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = -1}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = std::nan("")}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = {1, 2, 3}}), ValueError);
  CHECK_THROWS_AS(interpolate(x, {.scale_factor = 1e300}), SizeError);
  CHECK_THROWS_WITH_AS_TEXT(
      interpolate(x, {.size = 2, .mode = Mode::linear}), ShapeError,
      "interpolate: wrong number of dimensions; got f32[1,1,4,4]@cpu, expected 3");
  CHECK_THROWS_AS(interpolate(counting({4, 4}), {.size = 2}), ShapeError);
  CHECK_THROWS_AS(interpolate(zeros({1, 1, 0}), {.size = 2}), ShapeError);
  CHECK_THROWS_AS(interpolate(x, {.size = 0}), ShapeError);
  CHECK_THROWS_AS(interpolate(counting({1, 1, 4}, i64), {.size = 2}), DtypeError);
  CHECK_THROWS_AS(interpolate(Tensor{}, {.size = 2}), ValueError);
}

TEST_CASE("gradients of resizing accumulate in f32 and do not depend on threads") {
  const Tensor x = ones({1, 1, 1}, {.dtype = f16}).requires_grad_();
  interpolate(x, {.size = 3000}).backward(ones({1, 1, 3000}, {.dtype = f16}));
  CHECK(x.grad().item<float>() == 3000);
  const auto gradient = [](int threads) {
    set_num_threads(threads);
    const Tensor image = counting({2, 3, 40, 50}).requires_grad_();
    interpolate(image, {.size = {90, 31}, .mode = Mode::bilinear, .antialias = true})
        .backward(sin(counting({2, 3, 90, 31})));
    return values(image.grad());
  };
  const int before = num_threads();
  CHECK(gradient(1) == gradient(4));
  set_num_threads(before);
}

TEST_CASE("non-finite grid positions are outside the image") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor x = full({1, 1, 2, 2}, 3.0);
  const Tensor grid =
      tensor({nan, 0, inf, 0, 0, -inf, 0, 0, 1e30, 0}, {1, 1, 5, 2}).requires_grad_();
  for (const GridSampleMode mode :
       {GridSampleMode::bilinear, GridSampleMode::nearest, GridSampleMode::bicubic}) {
    const Tensor y = grid_sample(x, grid, {.mode = mode});
    CHECK(y[0][0][0][0].item<float>() == 0);
    CHECK(y[0][0][0][1].item<float>() == 0);
    CHECK(y[0][0][0][2].item<float>() == 0);
    CHECK(y[0][0][0][3].item<float>() != 0);
    CHECK(y[0][0][0][4].item<float>() == 0);
    for (const GridSamplePadding padding :
         {GridSamplePadding::border, GridSamplePadding::reflection}) {
      grid.set_grad({});
      const Tensor z = grid_sample(x, grid, {.mode = mode, .padding_mode = padding});
      sum(z).backward();
      for (const double v : values(z)) CHECK(std::abs(v - 3) < 1e-5);
      for (const double v : values(grid.grad())) CHECK(std::isfinite(v));
    }
  }
}

TEST_CASE("grid_sample promotes, keeps each operand's dtype in gradients, and is first-order") {
  const Tensor x = ones({1, 1, 2, 2}, {.dtype = f16}).requires_grad_();
  const Tensor grid = zeros({1, 1, 1, 2}).requires_grad_();
  const Tensor y = grid_sample(x, grid);
  CHECK(y.dtype() == f32);
  y.backward(ones({1, 1, 1, 1}));
  CHECK(x.grad().dtype() == f16);
  CHECK(grid.grad().dtype() == f32);
  CHECK(values(x.grad()) == List{0.25, 0.25, 0.25, 0.25});
  CHECK_THROWS_AS(grid_sample(x, grid).backward(ones({1, 1, 1, 1}), false, true), Unsupported);
}

TEST_CASE("grid ops reject mismatched operands") {
  const Tensor x = ones({1, 1, 2, 2});
  CHECK_THROWS_WITH_AS_TEXT(
      grid_sample(x, ones({1, 2, 2, 3})), ShapeError,
      "grid_sample: the grid does not fit the image; got f32[1,1,2,2]@cpu and f32[1,2,2,3]@cpu");
  CHECK_THROWS_AS(grid_sample(x, ones({2, 2, 2, 2})), ShapeError);
  CHECK_THROWS_AS(grid_sample(ones({1, 2, 2}), ones({1, 2, 1})), ShapeError);
  CHECK_THROWS_AS(grid_sample(ones({1, 1, 0, 2}), ones({1, 1, 1, 2})), ShapeError);
  CHECK_THROWS_AS(
      grid_sample(ones({1, 1, 2, 2, 2}), ones({1, 1, 1, 1, 3}), {.mode = GridSampleMode::bicubic}),
      ShapeError);
  CHECK_THROWS_AS(grid_sample(x, ones({1, 1, 1, 2}, {.dtype = i64})), DtypeError);
  CHECK_THROWS_AS(grid_sample(x, Tensor{}), ValueError);
  CHECK_THROWS_AS(affine_grid(ones({1, 2, 2}), {1, 1, 2, 2}), ShapeError);
  CHECK_THROWS_AS(affine_grid(ones({2, 2, 3}), {1, 1, 2, 2}), ShapeError);
  CHECK_THROWS_AS(affine_grid(ones({1, 2, 3}), {1, 1, 0, 2}), ShapeError);
  CHECK_THROWS_AS(affine_grid(ones({1, 2, 3}, {.dtype = i64}), {1, 1, 2, 2}), DtypeError);
}
