// Gradients of the ordering ops: g scattered to the indices of the elements. And the composites
// of argsort and quantile.
#include "../../tensor/ops/sort.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/require.h"
#include "../../tensor/text/text.h"
#include "../ops/arithmetic.h"
#include "../ops/compare.h"
#include "../ops/create.h"
#include "../ops/gather.h"
#include "../ops/index.h"
#include "../ops/operators.h"
#include "../ops/rounding.h"
#include "../ops/selection.h"
#include "../ops/sort.h"

namespace mezzo::op {

namespace {

Tensor scattered(const Saved& saved, std::int64_t dim, const Tensor& indices, const Tensor& g) {
  const Tensor whole = zeros(saved.shape(0), {.dtype = g.dtype(), .device = g.device()});
  return scatter(whole, dim, indices, g);
}

}  // namespace

Grads Sort::backward(const Saved& saved, const Grads& gy) {
  return {scattered(saved, saved.attrs<Sort>().dim, saved.outputs[1], gy[0])};
}

Grads Topk::backward(const Saved& saved, const Grads& gy) {
  return {scattered(saved, saved.attrs<Topk>().dim, saved.outputs[1], gy[0])};
}

Grads Kthvalue::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Kthvalue>();
  const bool dropped = !attrs.keepdim && saved.shape(0).rank() > 0;
  if (!dropped) return {scattered(saved, attrs.dim, saved.outputs[1], gy[0])};
  const int dim = wrap_dim(attrs.dim, saved.shape(0).rank(), "kthvalue");
  return {scattered(saved, dim, saved.outputs[1].unsqueeze(dim), gy[0].unsqueeze(dim))};
}

std::vector<Tensor> Argsort::composite(Inputs in, const Attrs& attrs) {
  return {sort(in[0], {.dim = attrs.dim, .descending = attrs.descending}).indices};
}

namespace {

Tensor at_places(const Tensor& sorted, const Tensor& places) {
  return index_select(sorted, -1, places.to(DType::i64));
}

/** Returns the weighted mean of two elements, in the type of the arithmetic. Equal infinities have
 *  no difference; they are their own mean. */
Tensor interpolated(const Tensor& below, const Tensor& above, const Tensor& weight) {
  const Tensor infinite = logical_and(isinf(below), eq(below, above));
  const Tensor mean =
      lerp(masked_fill(below, infinite, 0), masked_fill(above, infinite, 0), weight);
  return where(infinite, below, mean);
}

}  // namespace

std::vector<Tensor> Quantile::composite(Inputs in, const Attrs& attrs) {
  const Tensor &x = in[0], &q = in[1];
  require_floating_operands("quantile", in);
  if (q.dim() > 1)
    fail<ShapeError>("quantile", {.what = "wrong number of dimensions of q",
                                  .got = str(q),
                                  .expected = "a number or 1 dimension"});
  const int dim = attrs.dim ? wrap_dim(*attrs.dim, x.dim(), "quantile") : 0;
  const bool whole = !attrs.dim || x.dim() == 0;
  const Tensor lines = whole ? x.reshape({x.numel()}) : x.movedim(dim, -1);
  const std::int64_t n = lines.size(-1);
  if (n == 0) fail<ValueError>("quantile", {.what = "no elements", .got = str(x)});
  const DType wide = compute_dtype(x.dtype());
  const Tensor sorted = sort(lines).values;
  const Tensor place = q.reshape({q.numel()}).to(DType::f64) * static_cast<double>(n - 1);
  Tensor y;
  switch (attrs.interpolation) {
    case Interpolation::lower: y = at_places(sorted, floor(place)); break;
    case Interpolation::higher: y = at_places(sorted, ceil(place)); break;
    case Interpolation::nearest: y = at_places(sorted, round(place)); break;
    case Interpolation::linear:
    case Interpolation::midpoint: {
      const bool linear = attrs.interpolation == Interpolation::linear;
      const Tensor first = floor(place).detach();
      const Tensor weight = linear ? place - first : full_like(place, 0.5);
      y = interpolated(at_places(sorted, first).to(wide), at_places(sorted, ceil(place)).to(wide),
                       weight.to(wide))
              .to(x.dtype());
    }
  }
  // The last of the sorted elements is nan if one is.
  const Tensor last = sorted.narrow(-1, n - 1, 1);
  y = where(isnan(last), last, y).movedim(-1, 0);
  if (attrs.keepdim && whole) {
    Shape shape{q.numel()};
    for (int d = 0; d < x.dim(); ++d) shape.push_back(1);
    y = y.reshape(shape);
  } else if (attrs.keepdim) {
    y = y.unsqueeze(dim + 1);
  }
  return {q.dim() == 0 ? y.select(0, 0) : y};
}

}  // namespace mezzo::op
