// Gradients and public functions of the ops in rearrange.h.
#include "rearrange.h"

#include <algorithm>
#include <cstdlib>

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/error.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/compare.h"
#include "../elementwise/operators.h"
#include "../index/classes.h"
#include "../index/gather.h"
#include "../index/index.h"
#include "../index/search.h"
#include "../linalg/triangle.h"
#include "../reduce/arg_reduce.h"
#include "../reduce/reduce.h"
#include "../reduce/scan.h"
#include "../require.h"
#include "join.h"
#include "place.h"

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
  const Tensor places = arange(x.shape()[0], {.device = x.device()}) * (n + 1) + first;
  return {scatter(whole, 0, places, x).view({n, n})};
}

std::vector<Tensor> Diff::composite(Inputs in, const Attrs& attrs) {
  Tensor x = in[0];
  if (attrs.n < 0)
    fail<ValueError>("diff", {.what = "a negative number of differences", .got = str(attrs.n)});
  if (x.dim() == 0)
    fail<ShapeError>("diff", {.what = "a 0-dim tensor has no neighbours",
                              .got = str(x),
                              .expected = "at least 1 dimension"});
  const int dim = wrap_dim(attrs.dim, x.dim(), "diff");
  if (attrs.n == 0) return {x.clone()};
  const std::int64_t kept = std::max<std::int64_t>(x.shape()[dim] - attrs.n, 0);
  if (kept == 0 || x.numel() == 0) return {x.narrow(dim, 0, kept).clone()};
  for (std::int64_t left = attrs.n; left > 0; --left) {
    const std::int64_t pairs = x.shape()[dim] - 1;
    const Tensor later = x.narrow(dim, 1, pairs), earlier = x.narrow(dim, 0, pairs);
    x = x.dtype() == DType::boolean ? ne(later, earlier) : later - earlier;
  }
  return {x};
}

std::vector<Tensor> RepeatInterleave::composite(Inputs in, const Attrs& attrs) {
  const Tensor &x = in[0], &repeats = in[1];
  const int dim = attrs.dim;
  if (!repeats.defined()) {
    Shape repeated = x.shape(), merged = x.shape();
    repeated.insert(dim + 1, attrs.times);
    merged[dim] = checked_product({merged[dim], attrs.times}, "repeat_interleave");
    return {x.unsqueeze(dim + 1).expand(repeated).clone().view(merged)};
  }
  const Tensor ends = cumsum(repeats.to(DType::i64), 0);
  const Tensor places = arange(attrs.total, {.device = x.device()});
  return {index_select(x, dim, searchsorted(ends, places, {.right = true}))};
}

std::vector<Tensor> Tile::composite(Inputs in, const Attrs& attrs) {
  Shape repeats;
  for (int d = attrs.dims.rank(); d < in[0].dim(); ++d) repeats.push_back(1);
  for (const std::int64_t times : attrs.dims) repeats.push_back(times);
  return {repeat(in[0], repeats)};
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

namespace mezzo {

namespace {

/** Returns x, flattened unless the options name a dimension; a 0-dim tensor becomes 1-D. */
Tensor with_repeated_dim(const Tensor& x, const RepeatInterleaveOptions& options) {
  require_defined("repeat_interleave", x);
  return options.dim && x.dim() > 0 ? x : x.reshape({x.numel()});
}

int repeated_dim(const Tensor& x, const RepeatInterleaveOptions& options) {
  return options.dim ? wrap_dim(*options.dim, x.dim(), "repeat_interleave") : 0;
}

[[noreturn]] void refuse_repeats(std::int64_t repeats) {
  fail<ValueError>("repeat_interleave",
                   {.what = "a negative number of repeats", .got = str(repeats)});
}

void require_output_size(WideSize total, const RepeatInterleaveOptions& options) {
  const std::int64_t size = checked_size(total, "repeat_interleave");
  if (options.output_size && *options.output_size != size)
    fail<ValueError>("repeat_interleave", {.what = "the repeats do not add up to output_size",
                                           .got = str(size),
                                           .expected = str(*options.output_size)});
}

/** Returns the sum of the repeats, which waits for a device unless it is given. */
std::int64_t total_repeats(const Tensor& repeats, const RepeatInterleaveOptions& options) {
  if (repeats.numel() == 0) return 0;
  if (options.output_size && repeats.device() != cpu) return *options.output_size;
  const ApiScope called("repeat_interleave");
  const NoGradNoCasts plain_ops;
  const std::vector<std::int64_t> facts =
      stack({min(repeats).to(DType::i64), sum(repeats)}).to_vector<std::int64_t>();
  if (facts[0] < 0) refuse_repeats(facts[0]);
  require_output_size(facts[1], options);
  return facts[1];
}

}  // namespace

Tensor diag(const Tensor& x, std::int64_t diagonal) { return apply_with<op::Diag>({diagonal}, x); }

Tensor diff(const Tensor& x, const DiffOptions& options) {
  if (!options.prepend.defined() && !options.append.defined())
    return apply_with<op::Diff>({options.n, options.dim}, x);
  require_defined("diff", x);
  const ApiScope called("diff");
  std::vector<Tensor> parts{x};
  if (options.prepend.defined()) parts.insert(parts.begin(), options.prepend);
  if (options.append.defined()) parts.push_back(options.append);
  return apply_with<op::Diff>({options.n, options.dim}, cat(parts, options.dim));
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, const MeshgridOptions& options) {
  if (tensors.empty())
    fail<ValueError>("meshgrid",
                     {.what = "the list of tensors is empty", .expected = "one or more"});
  std::vector<Tensor> vectors;
  for (const Tensor& x : tensors) {
    require_defined("meshgrid", x);
    if (x.dim() > 1)
      fail<ShapeError>("meshgrid",
                       {.what = "not a vector", .got = str(x), .expected = "0 or 1 dimensions"});
    if (x.dtype() != tensors[0].dtype())
      fail<DtypeError>("meshgrid", {.what = "the vectors differ in dtype",
                                    .got = str(std::span<const Tensor>(tensors)),
                                    .expected = "one dtype"});
    if (!(x.device() == tensors[0].device()))
      fail<DeviceError>("meshgrid", {.what = "the vectors are on different devices",
                                     .got = str(std::span<const Tensor>(tensors))});
    vectors.push_back(x.reshape({x.numel()}));
  }
  const ApiScope called("meshgrid");
  const bool swaps = options.indexing == MeshIndexing::xy && vectors.size() > 1;
  if (swaps) std::swap(vectors[0], vectors[1]);
  Shape whole;
  for (const Tensor& x : vectors) whole.push_back(x.numel());
  std::vector<Tensor> grids;
  for (int k = 0; k < whole.rank(); ++k) {
    Shape along = whole;
    for (int d = 0; d < whole.rank(); ++d)
      if (d != k) along[d] = 1;
    grids.push_back(vectors[static_cast<std::size_t>(k)].view(along).expand(whole));
  }
  if (swaps) std::swap(grids[0], grids[1]);
  return grids;
}

Tensor pixel_shuffle(const Tensor& x, std::int64_t upscale_factor) {
  return apply_with<op::PixelShuffle>({upscale_factor}, x);
}
Tensor pixel_unshuffle(const Tensor& x, std::int64_t downscale_factor) {
  return apply_with<op::PixelUnshuffle>({downscale_factor}, x);
}

Tensor repeat_interleave(const Tensor& x, std::int64_t repeats,
                         const RepeatInterleaveOptions& options) {
  if (repeats < 0) refuse_repeats(repeats);
  const Tensor whole = with_repeated_dim(x, options);
  const int dim = repeated_dim(whole, options);
  require_output_size(WideSize{whole.size(dim)} * repeats, options);
  return apply_with<op::RepeatInterleave>({.times = repeats, .dim = dim}, whole, Tensor{});
}

Tensor repeat_interleave(const Tensor& x, const Tensor& repeats,
                         const RepeatInterleaveOptions& options) {
  require_defined("repeat_interleave", repeats);
  op::require_index_dtype("repeat_interleave", repeats);
  const Tensor whole = with_repeated_dim(x, options);
  const int dim = repeated_dim(whole, options);
  const std::int64_t length = whole.size(dim);
  if (repeats.dim() > 1 || (repeats.numel() != 1 && repeats.numel() != length))
    fail<ShapeError>("repeat_interleave",
                     {.what = "every index needs a number of repeats",
                      .got = str(str(repeats), " for dimension ", dim, " of ", str(whole)),
                      .expected = str("[1] or [", length, "]")});
  const Tensor times = repeats.reshape({repeats.numel()}).expand({length});
  return apply_with<op::RepeatInterleave>({.total = total_repeats(times, options), .dim = dim},
                                          whole, times);
}

Tensor tile(const Tensor& x, const Shape& dims) { return apply_with<op::Tile>({dims}, x); }

Tensor trace(const Tensor& x) { return apply<op::Trace>(x); }

}  // namespace mezzo
