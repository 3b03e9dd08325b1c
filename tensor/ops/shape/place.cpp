// Shape rules and gradients of the ops in place.h.
#include "place.h"

#include <algorithm>
#include <string>
#include <vector>

#include <optional>

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../require.h"

namespace mezzo::op {

OutSpecs PlaceFunctions::infer(Inputs in, const Attrs& attrs) {
  Shape shape = in[0].shape();
  for (int i = 0; i < shape.rank(); ++i) shape[i] = attrs.dims[static_cast<std::size_t>(i)].size;
  return {{shape, in[0].dtype()}};
}

OutSpecs PlaceBackward::infer(Inputs in, const Attrs& attrs) {
  return {{.shape = attrs.sizes, .dtype = in[0].dtype(), .format = attrs.format}};
}

PlaceAttrs channels_at_end(const PlaceAttrs& attrs, int rank) {
  PlaceAttrs moved = attrs;
  for (int place = 0; place < rank; ++place)
    moved.dims[static_cast<std::size_t>(place)] =
        attrs.dims[static_cast<std::size_t>(dim_at(MemoryFormat::channels_last, rank, place))];
  return moved;
}

std::span<OpInfo* const> place_ops() { return infos_of(PlaceOps{}); }

// Gradients of the ops that copy elements to other positions (pad, flip, roll, repeat), and of
// their adjoint.

namespace {

/** Returns the dimension of the adjoint: every element returns to its position, with 0 where it was
 *  removed. Returns nothing if elements are copied more than once. */
std::optional<PlaceDim> inverse(const PlaceDim& dim, std::int64_t n) {
  const bool rolled = dim.mode == PlaceMode::circular && dim.size == n;
  const bool at_most_once =
      dim.mode == PlaceMode::inside || dim.mode == PlaceMode::reversed || rolled;
  if (!at_most_once) return std::nullopt;
  return PlaceDim{dim.mode, -dim.begin, n};
}

/** Returns the adjoint as an op of the same kind, which moves elements without adding them. Returns
 *  nothing if elements are copied more than once. */
std::optional<PlaceAttrs> inverse(const PlaceAttrs& attrs, const Shape& sizes) {
  PlaceAttrs back;
  for (int d = 0; d < sizes.rank(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    const std::optional<PlaceDim> dim = inverse(attrs.dims[i], sizes[d]);
    if (!dim) return std::nullopt;
    back.dims[i] = *dim;
  }
  return back;
}

}  // namespace

Grads PlaceFunctions::backward(const Saved& saved, const Grads& gy) {
  // All of these ops have attributes of one type.
  const PlaceAttrs& attrs = saved.attrs<Pad>();
  if (const std::optional<PlaceAttrs> back = inverse(attrs, saved.shape(0)))
    return {apply_with<Pad>(*back, gy[0])};
  return {apply_with<PlaceBackward>({attrs, saved.shape(0), saved.input_meta[0].format}, gy[0])};
}

Grads PlaceBackward::backward(const Saved& saved, const Grads& gy) {
  PlaceAttrs place = saved.attrs<PlaceBackward>().place;
  place.value = 0;
  return {apply_with<Pad>(place, gy[0])};
}

}  // namespace mezzo::op

namespace mezzo {

namespace {

/** Returns attributes that leave every element at its position. */
op::PlaceAttrs in_place(const Tensor& x) {
  op::PlaceAttrs attrs;
  for (int d = 0; d < x.dim(); ++d) attrs.dims[static_cast<std::size_t>(d)].size = x.shape()[d];
  return attrs;
}

}  // namespace

Tensor flip(const Tensor& x, const Dims& dims) {
  require_defined("flip", x);
  const std::span<const std::int64_t> wanted = dims;
  op::PlaceAttrs attrs = in_place(x);
  const std::uint32_t flipped = wanted.empty() ? 0 : dim_mask(wanted, x.dim(), "flip");
  for (int d = 0; d < x.dim(); ++d)
    if (flipped >> d & 1) attrs.dims[static_cast<std::size_t>(d)].mode = op::PlaceMode::reversed;
  return apply_with<op::Flip>(attrs, x);
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

namespace {

op::PlaceMode place_mode(PadMode mode) {
  switch (mode) {
    case PadMode::constant: return op::PlaceMode::inside;
    case PadMode::reflect: return op::PlaceMode::reflect;
    case PadMode::replicate: return op::PlaceMode::replicate;
    case PadMode::circular: break;
  }
  return op::PlaceMode::circular;
}

std::string text(const std::vector<std::int64_t>& numbers) {
  std::string list;
  for (const std::int64_t n : numbers) list += (list.empty() ? "" : ",") + str(n);
  return str("[", list, "]");
}

/** Throws ShapeError where the mode cannot fill the padding from the dimension. Mode constant
 * always can. */
void require_reach(const Tensor& x, int dim, std::int64_t before, std::int64_t behind,
                   PadMode mode) {
  const std::int64_t n = x.shape()[dim], most = std::max(before, behind);
  if (mode == PadMode::constant || most <= 0) return;
  if (n == 0)
    fail<ShapeError>("pad", {.what = "an empty dimension has no elements to pad with",
                             .got = str(most, " around dimension ", dim, " of ", x),
                             .expected = "mode constant"});
  const bool fits = mode == PadMode::replicate || (mode == PadMode::reflect ? most < n : most <= n);
  if (!fits)
    fail<ShapeError>(
        "pad",
        {.what = mode == PadMode::reflect ? "reflect padding is too large for the dimension"
                                          : "circular padding is too large for the dimension",
         .got = str(most, " around dimension ", dim, " of ", x),
         .expected = mode == PadMode::reflect ? str("less than ", n) : str("at most ", n)});
}

[[noreturn]] void refuse_removal(const Tensor& x, int dim,
                                 const std::vector<std::int64_t>& padding) {
  fail<ShapeError>("pad", {.what = "more elements are removed than there are",
                           .got = str(text(padding), " for ", x),
                           .expected = str("at most ", x.shape()[dim], " in dimension ", dim)});
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, const PadOptions& options) {
  require_defined("pad", x);
  const auto given =
      static_cast<int>(std::min<std::size_t>(padding.size(), 2 * Shape::kMaxRank + 2));
  if (given % 2 != 0 || given / 2 > x.dim())
    fail<ShapeError>("pad", {.what = "paddings come in pairs, at most one pair for each dimension",
                             .got = str(text(padding), " for ", x),
                             .expected = str("2, 4, ... up to ", 2 * x.dim(), " numbers")});
  Tensor source = x;
  op::PlaceAttrs attrs;
  attrs.value = options.value;
  for (int d = 0; d < x.dim(); ++d) {
    op::PlaceDim& dim = attrs.dims[static_cast<std::size_t>(d)];
    dim.size = x.shape()[d];
    const int pair = x.dim() - 1 - d;
    if (pair >= given / 2) continue;
    std::int64_t before = padding[static_cast<std::size_t>(2 * pair)],
                 behind = padding[static_cast<std::size_t>(2 * pair + 1)];
    if (options.mode == PadMode::circular) {
      // As in PyTorch, elements are removed before the rest is padded.
      const std::int64_t front = std::min<std::int64_t>(before, 0),
                         back = std::min<std::int64_t>(behind, 0);
      if (front < -dim.size || back < -dim.size - front) refuse_removal(x, d, padding);
      if (front < 0 || back < 0) source = source.narrow(d, -front, dim.size + front + back);
      before -= front;
      behind -= back;
    }
    require_reach(source, d, before, behind, options.mode);
    dim = {place_mode(options.mode), before, 0};
    const bool overflows = __builtin_add_overflow(source.shape()[d], before, &dim.size) ||
                           __builtin_add_overflow(dim.size, behind, &dim.size);
    if (overflows)
      fail<SizeError>("pad", {.what = "a size overflows", .got = str(text(padding), " for ", x)});
    if (dim.size < 0) refuse_removal(x, d, padding);
  }
  return apply_with<op::Pad>(attrs, source);
}

}  // namespace mezzo
