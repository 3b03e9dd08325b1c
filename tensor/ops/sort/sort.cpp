// Shape rules, gradients and public functions of the ops in sort.h.
#include "sort.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/arithmetic.h"
#include "../elementwise/compare.h"
#include "../elementwise/operators.h"
#include "../elementwise/rounding.h"
#include "../elementwise/selection.h"
#include "../index/gather.h"
#include "../index/index.h"
#include "../reduce/arg_reduce.h"
#include "../require.h"

namespace mezzo::op {

namespace {

/** Checks k. Errors: ValueError unless lowest <= k <= the size of dim, which is 1 for a 0-dim
 *  tensor. */
void require_k(const char* op, const Tensor& x, int dim, std::int64_t k, std::int64_t lowest) {
  const std::int64_t length = x.dim() == 0 ? 1 : x.shape()[dim];
  if (k < lowest || k > length)
    fail<ValueError>(op, {.what = "k is out of range",
                          .got = str("k = ", k, " along dimension ", dim, " of ", x),
                          .expected = length < lowest ? std::string("a dimension that is not empty")
                                                      : str(lowest, "..", length)});
}

}  // namespace

OutSpecs Sort::infer(Inputs in, const Attrs& attrs) {
  wrap_dim(attrs.dim, in[0].dim(), "sort");
  return {{in[0].shape(), in[0].dtype()}, {in[0].shape(), DType::i64}};
}

OutSpecs Topk::infer(Inputs in, const Attrs& attrs) {
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "topk");
  require_k("topk", in[0], dim, attrs.k, 0);
  Shape shape = in[0].shape();
  if (shape.rank() > 0)
    shape[dim] = attrs.k;
  else if (attrs.k == 0)
    shape = {0};
  return {{shape, in[0].dtype()}, {shape, DType::i64}};
}

OutSpecs Kthvalue::infer(Inputs in, const Attrs& attrs) {
  const int dim = wrap_dim(attrs.dim, in[0].dim(), "kthvalue");
  require_k("kthvalue", in[0], dim, attrs.k, 1);
  Shape shape = in[0].shape();
  if (shape.rank() > 0 && attrs.keepdim)
    shape[dim] = 1;
  else if (shape.rank() > 0)
    shape.erase(dim);
  return {{shape, in[0].dtype()}, {shape, DType::i64}};
}

std::span<OpInfo* const> sort_ops() { return infos_of(SortOps{}); }

// Gradients of the ordering ops: g scattered to the indices of the elements. And the composites
// of argsort and quantile.

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

namespace mezzo {

ValuesAndIndices sort(const Tensor& x, const SortOptions& options) {
  return apply_pair<ValuesAndIndices, op::Sort>({options.dim, options.descending}, x);
}

Tensor argsort(const Tensor& x, const SortOptions& options) {
  return apply_with<op::Argsort>({options.dim, options.descending}, x);
}

ValuesAndIndices topk(const Tensor& x, std::int64_t k, const TopkOptions& options) {
  return apply_pair<ValuesAndIndices, op::Topk>({k, options.dim, options.largest, options.sorted},
                                                x);
}

ValuesAndIndices kthvalue(const Tensor& x, std::int64_t k, const KthvalueOptions& options) {
  return apply_pair<ValuesAndIndices, op::Kthvalue>({k, options.dim, options.keepdim}, x);
}

namespace {

void require_share(double q) {
  if (!(q >= 0 && q <= 1))
    fail<ValueError>("quantile",
                     {.what = "a share is out of range", .got = str(q), .expected = "0 <= q <= 1"});
}

Tensor quantile_at(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  return apply_with<op::Quantile>(
      {options.dim, options.keepdim, static_cast<op::Interpolation>(options.interpolation)}, x, q);
}

}  // namespace

Tensor quantile(const Tensor& x, const Tensor& q, const QuantileOptions& options) {
  require_defined("quantile", q);
  if (q.device() == cpu && is_floating(q.dtype()))
    for (const double share : q.to_vector<double>()) require_share(share);
  return quantile_at(x, q, options);
}

Tensor quantile(const Tensor& x, double q, const QuantileOptions& options) {
  require_defined("quantile", x);
  require_share(q);
  return quantile_at(x, full({}, q, {.dtype = DType::f64, .device = x.device()}), options);
}

}  // namespace mezzo
