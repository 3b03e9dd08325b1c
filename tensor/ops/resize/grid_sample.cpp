// Shape rules, gradients and public functions of the ops in grid_sample.h.
#include "grid_sample.h"

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "../matmul/matmul.h"
#include "../require.h"
#include "../shape/join.h"
#include "../wide.h"

namespace mezzo::op {

OutSpecs GridSample::infer(Inputs in, const Attrs& attrs) {
  const Tensor &x = in[0], &grid = in[1];
  for (const Tensor& operand : in)
    if (!operand.defined())
      fail<ValueError>(
          "grid_sample",
          {.what = str("operand ", &operand - in.data(), " is undefined"), .expected = "a tensor"});
    else if (!is_floating(operand.dtype()))
      fail<DtypeError>(
          "grid_sample",
          {.what = "not defined for integers", .got = str(in), .expected = "floating operands"});
  const int dims = x.dim() - 2;
  bool fits = (dims == 2 || dims == 3) && grid.dim() == x.dim() && grid.shape().back() == dims &&
              grid.shape()[0] == x.shape()[0];
  for (int d = 2; fits && d < x.dim(); ++d) fits = x.shape()[d] > 0;
  if (!fits)
    fail<ShapeError>("grid_sample",
                     {.what = "the grid does not fit the image",
                      .got = str(in),
                      .expected = "[n,c,h,w] and [n,h',w',2], or [n,c,d,h,w] and [n,d',h',w',3], "
                                  "with an image that is not empty"});
  if (attrs.mode == GridSampleMode::bicubic && dims != 2)
    fail<ShapeError>("grid_sample", {.what = "mode bicubic is defined for images only",
                                     .got = str(in),
                                     .expected = "4 dimensions"});
  Shape shape{x.shape()[0], x.shape()[1]};
  for (int d = 1; d <= dims; ++d) shape.push_back(grid.shape()[d]);
  return {{shape, promoted_dtype(in)}};
}

OutSpecs GridSampleBackward::infer(Inputs in, const Attrs& attrs) {
  return {{attrs.wants_x ? in[1].shape() : Shape{0}, in[1].dtype()},
          {attrs.wants_grid ? in[2].shape() : Shape{0}, in[2].dtype()}};
}

std::span<OpInfo* const> grid_sample_ops() { return infos_of(GridSampleOps{}); }

// The gradients of grid_sample, and the composite of affine_grid.

Grads GridSample::backward(const Saved& saved, const Grads& gy) {
  const GridSampleBackward::Attrs attrs{saved.attrs<GridSample>(), saved.wants(0), saved.wants(1)};
  auto both = apply_all<GridSampleBackward>(attrs, gy[0], saved.inputs[0], saved.inputs[1]);
  return {saved.wants(0) ? std::move(both[0]) : Tensor{},
          saved.wants(1) ? std::move(both[1]) : Tensor{}};
}

namespace {

/** Returns the centres of `size` elements that span -1..1. With align_corners the first centre is
 *  at -1 and the last at 1. */
Tensor centres(std::int64_t size, bool align_corners, const TensorOptions& options) {
  if (size == 1) return zeros({1}, options);
  const Tensor even = linspace(-1, 1, size, options);
  return align_corners ? even : even * (static_cast<double>(size - 1) / static_cast<double>(size));
}

}  // namespace

std::vector<Tensor> AffineGrid::composite(Inputs in, const Attrs& attrs) {
  const Tensor& theta = in[0];
  const int dims = attrs.size.rank() - 2;
  require_one_floating_dtype("affine_grid", in);
  const bool fits =
      (dims == 2 || dims == 3) && theta.shape() == Shape{attrs.size[0], dims, dims + 1};
  if (!fits)
    fail<ShapeError>("affine_grid",
                     {.what = "the maps do not fit the size",
                      .got = str(theta, " for ", attrs.size),
                      .expected = "[n,2,3] for [n,c,h,w], or [n,3,4] for [n,c,d,h,w]"});
  Shape places, grid{attrs.size[0]};
  std::int64_t count = 1;
  for (int d = 0; d < dims; ++d) {
    const std::int64_t size = attrs.size[d + 2];
    if (size < 1)
      fail<ShapeError>(
          "affine_grid",
          {.what = "an empty size", .got = str(attrs.size), .expected = "sizes of 1 or more"});
    places.push_back(size);
    grid.push_back(size);
    count = checked_product({count, size}, "affine_grid");
  }
  grid.push_back(dims);
  // Each position as (x, y, ..., 1): the last column of the map is the translation.
  const TensorOptions wide_options{.dtype = compute_dtype(theta.dtype()), .device = theta.device()};
  std::vector<Tensor> columns;
  for (int d = dims - 1; d >= 0; --d) {
    Tensor column = centres(attrs.size[d + 2], attrs.align_corners, wide_options);
    for (int behind = d + 1; behind < dims; ++behind) column = column.unsqueeze(-1);
    columns.push_back(column.expand(places).reshape({count}));
  }
  columns.push_back(ones({count}, wide_options));
  const Tensor base = stack(columns, 1).unsqueeze(0).expand({attrs.size[0], count, dims + 1});
  return {bmm(base, wide(theta).transpose(1, 2)).view(grid).to(theta.dtype())};
}

}  // namespace mezzo::op

namespace mezzo {

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  return apply_with<op::GridSample>({options.mode, options.padding_mode, options.align_corners}, x,
                                    grid);
}

Tensor affine_grid(const Tensor& theta, const Shape& size, const AffineGridOptions& options) {
  return apply_with<op::AffineGrid>({size, options.align_corners}, theta);
}

}  // namespace mezzo
