#include "rearrange.h"

#include <algorithm>

#include "../../tensor/core/api_scope.h"
#include "../../tensor/core/checked_size.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/classes.h"
#include "../../tensor/ops/gather.h"
#include "../../tensor/ops/place.h"
#include "../../tensor/ops/rearrange.h"
#include "../../tensor/ops/require.h"
#include "../../tensor/ops/triangle.h"
#include "../../tensor/text/text.h"
#include "../grad_mode.h"

namespace mezzo {

namespace {

/** Returns attributes that leave every element at its position. */
op::PlaceAttrs in_place(const Tensor& x) {
  op::PlaceAttrs attrs;
  for (int d = 0; d < x.dim(); ++d) attrs.dims[static_cast<std::size_t>(d)].size = x.shape()[d];
  return attrs;
}

std::int64_t needed_classes(const Tensor& x) {
  op::require_index_dtype("one_hot", x);
  if (x.numel() == 0)
    fail<ValueError>("one_hot", {.what = "cannot count the classes of an empty tensor",
                                 .got = str(x),
                                 .expected = "the number of classes"});
  const ApiScope called("one_hot");
  const NoGradNoCasts plain_ops;
  return checked_size(WideSize{std::max<std::int64_t>(0, max(x).item<std::int64_t>())} + 1,
                      "one_hot");
}

}  // namespace

Tensor diag(const Tensor& x, std::int64_t diagonal) { return apply_with<op::Diag>({diagonal}, x); }

Tensor flip(const Tensor& x, const Dims& dims) {
  require_defined("flip", x);
  const std::span<const std::int64_t> wanted = dims;
  op::PlaceAttrs attrs = in_place(x);
  const std::uint32_t flipped = wanted.empty() ? 0 : dim_mask(wanted, x.dim(), "flip");
  for (int d = 0; d < x.dim(); ++d)
    if (flipped >> d & 1) attrs.dims[static_cast<std::size_t>(d)].mode = op::PlaceMode::reversed;
  return apply_with<op::Flip>(attrs, x);
}

Tensor one_hot(const Tensor& x, std::int64_t classes) {
  return apply_with<op::OneHot>({classes == -1 ? needed_classes(x) : classes}, x);
}

Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor) {
  return apply_with<op::PixelShuffle>({upscale_factor}, x);
}
Tensor pixel_unshuffle(const Tensor& x, std::int64_t downscale_factor) {
  return apply_with<op::PixelUnshuffle>({downscale_factor}, x);
}

Tensor repeat(const Tensor& x, const Shape& repeats) {
  require_defined("repeat", x);
  const int lead = repeats.rank() - x.dim();
  if (lead < 0)
    fail<ShapeError>("repeat", {.what = "every dimension needs a number of repeats",
                                .got = str(repeats, " for ", x),
                                .expected = str("at least ", x.dim(), " numbers")});
  for (const std::int64_t times : repeats)
    if (times < 0)
      fail<ValueError>("repeat", {.what = "a negative number of repeats", .got = str(repeats)});
  Tensor padded = x;
  for (int d = 0; d < lead; ++d) padded = padded.unsqueeze(0);
  op::PlaceAttrs attrs = in_place(padded);
  for (int d = 0; d < repeats.rank(); ++d) {
    op::PlaceDim& dim = attrs.dims[static_cast<std::size_t>(d)];
    if (repeats[d] == 1) continue;
    dim.mode = op::PlaceMode::circular;
    if (__builtin_mul_overflow(dim.size, repeats[d], &dim.size))
      fail<SizeError>("repeat", {.what = "a size overflows", .got = str(repeats, " for ", x)});
  }
  return apply_with<op::Repeat>(attrs, padded);
}

Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims) {
  require_defined("roll", x);
  const std::span<const std::int64_t> by = shifts, along = dims;
  if (along.empty() && by.size() == 1 && x.dim() != 1)
    return roll(x.reshape({x.numel()}), shifts, 0).reshape(x.shape());
  if (by.empty() || (by.size() != along.size() && !(along.empty() && by.size() == 1)))
    fail<ValueError>("roll", {.what = "numbers of shifts and dimensions differ",
                              .got = str(by.size(), " shifts and ", along.size(), " dimensions"),
                              .expected = "as many, or one shift without dimensions"});
  op::PlaceAttrs attrs = in_place(x);
  for (std::size_t i = 0; i < by.size(); ++i) {
    const int d = wrap_dim(along.empty() ? 0 : along[i], x.dim(), "roll");
    op::PlaceDim& dim = attrs.dims[static_cast<std::size_t>(d)];
    if (x.dim() == 0 || dim.size == 0) continue;
    dim.mode = op::PlaceMode::circular;
    dim.begin = (dim.begin + by[i] % dim.size) % dim.size;
  }
  return apply_with<op::Roll>(attrs, x);
}

Tensor trace(const Tensor& x) { return apply<op::Trace>(x); }

Tensor tril(const Tensor& x, std::int64_t diagonal) { return apply_with<op::Tril>({diagonal}, x); }

Tensor triu(const Tensor& x, std::int64_t diagonal) { return apply_with<op::Triu>({diagonal}, x); }

}  // namespace mezzo
