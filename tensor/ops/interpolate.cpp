// Shape rules of resizing.
#include "interpolate.h"

#include "../core/registry.h"
#include "../text/text.h"
#include "require.h"

namespace mezzo::op {

namespace {

/** Returns the number of spatial dimensions of a mode; 0: any of 1, 2, 3. */
int spatial_dims(InterpolateMode mode) {
  switch (mode) {
    case InterpolateMode::nearest:
    case InterpolateMode::nearest_exact: return 0;
    case InterpolateMode::linear: return 1;
    case InterpolateMode::trilinear: return 3;
    case InterpolateMode::bilinear:
    case InterpolateMode::bicubic: break;
  }
  return 2;
}

void require_options(const InterpolateAttrs& attrs) {
  const bool nearest = spatial_dims(attrs.mode) == 0;
  if (attrs.align_corners && nearest)
    fail<ValueError>(attrs.op, {.what = "align_corners has no meaning in a nearest mode",
                                .expected = "a linear or cubic mode"});
  const bool smooth =
      attrs.mode == InterpolateMode::bilinear || attrs.mode == InterpolateMode::bicubic;
  if (attrs.antialias && !smooth)
    fail<ValueError>(attrs.op, {.what = "antialias is not defined in this mode",
                                .expected = "bilinear or bicubic"});
}

}  // namespace

OutSpecs InterpolateFunctions::infer(Inputs in, const Attrs& attrs) {
  const Tensor& x = in[0];
  require_one_floating_dtype(attrs.op, in);
  require_options(attrs);
  const int dims = x.dim() - 2, wanted = spatial_dims(attrs.mode);
  if (wanted == 0 ? dims < 1 || dims > 3 : dims != wanted)
    fail<ShapeError>(attrs.op,
                     {.what = "wrong number of dimensions",
                      .got = str(x),
                      .expected = wanted == 0 ? std::string("3 to 5: batch, channels, sizes")
                                              : str(wanted + 2, ": batch, channels, sizes")});
  Shape shape = x.shape();
  for (int d = 0; d < dims; ++d) {
    shape[d + 2] = attrs.sizes[static_cast<std::size_t>(d)];
    if (x.shape()[d + 2] < 1 || shape[d + 2] < 1)
      fail<ShapeError>(attrs.op, {.what = "input and output sizes must be positive",
                                  .got = str(x, " to ", shape),
                                  .expected = "sizes of 1 or more"});
  }
  return {{shape, x.dtype()}};
}

OutSpecs InterpolateBackward::infer(Inputs in, const Attrs& attrs) {
  return {{.shape = attrs.sizes, .dtype = in[0].dtype(), .format = attrs.format}};
}

std::span<OpInfo* const> interpolate_ops() { return infos_of(InterpolateOps{}); }

}  // namespace mezzo::op
