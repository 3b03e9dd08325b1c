// Shape rules of grid_sample.
#include "grid_sample.h"

#include "../core/dispatch.h"
#include "../core/registry.h"
#include "../text/text.h"

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

}  // namespace mezzo::op
