// Shape rules and gradients of the ops in pair_distance.h.
#include "pair_distance.h"

#include <cmath>
#include <limits>

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/elementwise_info.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "../elementwise/power.h"
#include "../index/index.h"
#include "../matmul/matmul.h"
#include "../norm/line_scale.h"
#include "../reduce/reduce.h"
#include "../reduce/reduce_gradient.h"
#include "../require.h"
#include "../wide.h"

namespace mezzo::op {

OutSpecs PairDistance::infer(Inputs in, const Attrs&) {
  return {{{in[0].size(0), in[0].size(1), in[1].size(1)}, in[0].dtype()}};
}

OutSpecs PairDistanceBackward::infer(Inputs in, const Attrs&) {
  return {{in[2].shape(), in[2].dtype()}};
}

OutSpecs TriangleDistance::infer(Inputs in, const Attrs&) {
  const WideSize n = in[0].size(0);
  return {{{checked_size(n * (n - 1) / 2, "pdist")}, in[0].dtype()}};
}

OutSpecs TriangleDistanceBackward::infer(Inputs in, const Attrs&) {
  return {{in[2].shape(), in[2].dtype()}};
}

std::span<OpInfo* const> pair_distance_ops() { return infos_of(PairDistanceOps{}); }

// The composites of cdist and pdist, from their kernels or from matrix products, and the gradients
// of the kernels.

namespace {

void require_p(std::string_view op, double p) {
  if (!(p >= 0))
    fail<ValueError>(op, {.what = "p out of range", .got = str(p), .expected = "0 or more"});
}

/** Returns x with its batch dimensions expanded to `batch` and flattened to one. */
Tensor one_batch(const Tensor& x, const Shape& batch) {
  Shape shape = batch;
  shape.push_back(x.size(-2));
  shape.push_back(x.size(-1));
  return x.expand(shape).reshape({checked_numel(batch, "cdist"), x.size(-2), x.size(-1)});
}

Shape batch_shape_of(const Tensor& x) {
  return {std::span(x.shape().begin(), x.shape().size() - 2)};
}

/** Returns the 2-norms of all differences from |a|^2 + |b|^2 - 2 a.b, which may be negative after
 *  rounding; the root of a negative value is 0. */
Tensor distances_by_products(const Tensor& given_a, const Tensor& given_b) {
  // Scaled, so that squares of huge or tiny numbers stay in range.
  const Tensor scale =
      scale_of_sizes(maximum(amax(abs(given_a.detach())), amax(abs(given_b.detach()))));
  const Tensor a = scaled(given_a, scale), b = scaled(given_b, scale);
  const Tensor squares = sum(a * a, -1, {.keepdim = true}) + sum(b * b, -1).unsqueeze(-2);
  return unscaled(apply<SqrtOrZero>(baddbmm(squares, a, b.transpose(-2, -1), {.alpha = -2})),
                  scale);
}

/** Returns the gradient of differences d [..,M] at distance y [..,1]. For p = inf all ties get the
 *  full gradient; a norm would share it among them. */
Tensor difference_gradient(const Tensor& d, const Tensor& y, const Tensor& g, double p) {
  if (std::isinf(p)) return where(abs(d.detach()) == y.detach(), sign(d.detach()) * g, 0);
  return norm_gradient(d, y, g, {.p = p, .dims = 1u << (d.dim() - 1), .keepdim = true});
}

/** Returns the first (second) row numbers of all pairs i < j of n rows, in row order. */
Tensor triangle_rows(std::int64_t n, bool second, Device device) {
  const Tensor rows = empty_tensor({n * (n - 1) / 2}, DType::i64, cpu);
  std::int64_t* at = rows.data<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i + 1; j < n; ++j) *at++ = second ? j : i;
  return rows.to(device);
}

}  // namespace

std::vector<Tensor> Cdist::composite(Inputs in, const Attrs& attrs) {
  require_floating_operands(traits.name, in);
  const DType dtype = require_one_floating_dtype(traits.name, in);
  require_p(traits.name, attrs.p);
  if (in[0].dim() < 2 || in[1].dim() < 2 || in[0].size(-1) != in[1].size(-1))
    fail<ShapeError>(traits.name, {.what = "operands do not fit each other",
                                   .got = str(in),
                                   .expected = "(..,P,M) and (..,R,M)"});
  const Shape batch =
      broadcast_shapes(batch_shape_of(in[0]), batch_shape_of(in[1]), traits.name.data());
  const Tensor a = one_batch(wide(in[0]), batch), b = one_batch(wide(in[1]), batch);
  const bool products = attrs.p == 2 && a.numel() > 0 && b.numel() > 0 &&
                        std::max(a.size(1), b.size(1)) > attrs.mm_above;
  const Tensor y =
      products ? distances_by_products(a, b) : apply_with<PairDistance>({attrs.p}, a, b);
  Shape shape = batch;
  shape.push_back(a.size(1));
  shape.push_back(b.size(1));
  return {y.reshape(shape).to(dtype)};
}

Grads PairDistance::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<PairDistance>();
  const Tensor &a = saved.inputs[0], &b = saved.inputs[1], &y = saved.outputs[0], &g = gy[0];
  Grads grads(2);
  if (!grad_enabled()) {
    if (saved.wants(0)) grads[0] = apply_with<PairDistanceBackward>(attrs, g, y, a, b);
    if (saved.wants(1))
      grads[1] =
          apply_with<PairDistanceBackward>(attrs, g.transpose(1, 2), y.transpose(1, 2), b, a);
    return grads;
  }
  const Tensor terms = difference_gradient(a.unsqueeze(2) - b.unsqueeze(1), y.unsqueeze(-1),
                                           g.unsqueeze(-1), attrs.p);
  if (saved.wants(0)) grads[0] = sum(terms, 2);
  if (saved.wants(1)) grads[1] = -sum(terms, 1);
  return grads;
}

std::vector<Tensor> Pdist::composite(Inputs in, const Attrs& attrs) {
  require_floating_operands(traits.name, in);
  require_p(traits.name, attrs.p);
  if (in[0].dim() != 2)
    fail<ShapeError>(traits.name, {.what = "not a matrix", .got = str(in[0]), .expected = "(N,M)"});
  return {apply_with<TriangleDistance>({attrs.p}, wide(in[0])).to(in[0].dtype())};
}

Grads TriangleDistance::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<TriangleDistance>();
  const Tensor &x = saved.inputs[0], &y = saved.outputs[0], &g = gy[0];
  if (!grad_enabled() || y.numel() == 0)
    return {apply_with<TriangleDistanceBackward>(attrs, g, y, x)};
  const Tensor first = triangle_rows(x.size(0), false, x.device());
  const Tensor second = triangle_rows(x.size(0), true, x.device());
  const Tensor d = index_select(x, 0, first) - index_select(x, 0, second);
  const Tensor terms = difference_gradient(d, y.unsqueeze(-1), g.unsqueeze(-1), attrs.p);
  return {index_add(index_add(zeros_like(x), 0, first, terms), 0, second, -terms)};
}

}  // namespace mezzo::op

namespace mezzo {

Tensor cdist(const Tensor& a, const Tensor& b, const CdistOptions& options) {
  op::Cdist::Attrs attrs{.p = options.p};
  if (options.compute_mode == CdistMode::use_mm) attrs.mm_above = -1;
  if (options.compute_mode == CdistMode::do_not_use_mm)
    attrs.mm_above = std::numeric_limits<std::int64_t>::max();
  return apply_with<op::Cdist>(attrs, a, b);
}

Tensor pdist(const Tensor& x, const PdistOptions& options) {
  return apply_with<op::Pdist>({options.p}, x);
}

}  // namespace mezzo
