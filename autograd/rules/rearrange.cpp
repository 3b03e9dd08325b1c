// The composites of diag, trace, pixel_shuffle and pixel_unshuffle.
#include "../../tensor/ops/rearrange.h"

#include <cstdlib>

#include "../../tensor/core/checked_size.h"
#include "../../tensor/core/registry.h"
#include "../../tensor/text/text.h"
#include "../ops/create.h"
#include "../ops/gather.h"
#include "../ops/operators.h"
#include "../ops/reduce.h"

namespace mezzo::op {

namespace {

/** Returns x as [images, channels, height, width]. */
Tensor as_images(const char* op, const Tensor& x, std::int64_t factor) {
  if (factor < 1)
    fail<ValueError>(
        op, {.what = "the factor is out of range", .got = str(factor), .expected = "1 or more"});
  if (x.dim() < 3)
    fail<ShapeError>(op, {.what = "wrong number of dimensions",
                          .got = str(x),
                          .expected = "at least 3: channels, height and width"});
  std::int64_t images = 1;
  for (int d = 0; d < x.dim() - 3; ++d) images *= x.shape()[d];
  return x.reshape({images, x.size(-3), x.size(-2), x.size(-1)});
}

/** Returns x's leading dimensions followed by these. */
Shape with_image(const Tensor& x, std::int64_t channels, std::int64_t height, std::int64_t width) {
  Shape shape = x.shape();
  const int first = shape.rank() - 3;
  shape[first] = channels;
  shape[first + 1] = height;
  shape[first + 2] = width;
  return shape;
}

}  // namespace

std::vector<Tensor> Diag::composite(Inputs in, const Attrs& attrs) {
  const Tensor& x = in[0];
  if (x.dim() == 2) return {x.diagonal(attrs.diagonal).clone()};
  if (x.dim() != 1)
    fail<ShapeError>(
        "diag",
        {.what = "wrong number of dimensions", .got = str(x), .expected = "a vector or a matrix"});
  // Beyond this the matrix does not fit into memory, and the arithmetic below would overflow.
  constexpr std::int64_t kFarthest = std::int64_t{1} << 30;
  if (attrs.diagonal > kFarthest || attrs.diagonal < -kFarthest)
    fail<SizeError>("diag", {.what = "the diagonal is out of range", .got = str(attrs.diagonal)});
  const std::int64_t shift = std::abs(attrs.diagonal), n = x.shape()[0] + shift;
  const std::int64_t first = attrs.diagonal < 0 ? shift * n : shift;
  const Tensor whole =
      zeros({checked_product({n, n}, "diag")}, {.dtype = x.dtype(), .device = x.device()});
  const Tensor places =
      arange(static_cast<double>(x.shape()[0]), {.dtype = DType::i64, .device = x.device()}) *
          (n + 1) +
      first;
  return {scatter(whole, 0, places, x).view({n, n})};
}

std::vector<Tensor> PixelShuffle::composite(Inputs in, const Attrs& attrs) {
  const Tensor images = as_images("pixel_shuffle", in[0], attrs.factor);
  const std::int64_t r = attrs.factor, n = images.shape()[0], c = images.shape()[1],
                     h = images.shape()[2], w = images.shape()[3];
  const std::int64_t pixels = checked_product({r, r}, "pixel_shuffle");
  if (c % pixels != 0)
    fail<ShapeError>("pixel_shuffle", {.what = "the channels do not divide into pixels",
                                       .got = str(in[0], " by a factor of ", r),
                                       .expected = str("channels divisible by ", pixels)});
  const std::int64_t height = checked_product({h, r}, "pixel_shuffle"),
                     width = checked_product({w, r}, "pixel_shuffle");
  const Tensor split = images.view({n, c / pixels, r, r, h, w});
  return {split.permute({0, 1, 4, 2, 5, 3}).reshape(with_image(in[0], c / pixels, height, width))};
}

std::vector<Tensor> PixelUnshuffle::composite(Inputs in, const Attrs& attrs) {
  const Tensor images = as_images("pixel_unshuffle", in[0], attrs.factor);
  const std::int64_t r = attrs.factor, n = images.shape()[0], c = images.shape()[1],
                     h = images.shape()[2], w = images.shape()[3];
  if (h % r != 0 || w % r != 0)
    fail<ShapeError>("pixel_unshuffle", {.what = "the image does not divide into blocks",
                                         .got = str(in[0], " by a factor of ", r),
                                         .expected = str("height and width divisible by ", r)});
  const std::int64_t channels = checked_product({c, r, r}, "pixel_unshuffle");
  const Tensor split = images.reshape({n, c, h / r, r, w / r, r});
  return {split.permute({0, 1, 3, 5, 2, 4}).reshape(with_image(in[0], channels, h / r, w / r))};
}

std::vector<Tensor> Trace::composite(Inputs in, const NoAttrs&) {
  if (in[0].dim() != 2)
    fail<ShapeError>("trace",
                     {.what = "not a matrix", .got = str(in[0]), .expected = "2 dimensions"});
  return {sum(in[0].diagonal())};
}

std::span<OpInfo* const> rearrange_ops() { return infos_of(RearrangeOps{}); }

}  // namespace mezzo::op
