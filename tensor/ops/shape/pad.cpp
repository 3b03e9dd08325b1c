#include "pad.h"

#include <algorithm>

#include "../../core/dispatch.h"
#include "../../text/text.h"
#include "../require.h"
#include "place.h"

namespace mezzo {

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
