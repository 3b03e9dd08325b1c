// Shape rules and gradients of the ops in scan.h.
#include "scan.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../elementwise/operators.h"
#include "../wide.h"
#include "reduce_gradient.h"
#include "reduce_support.h"

namespace mezzo::op {

namespace {
OutSpecs accumulated(const Tensor& x) {
  return {{x.shape(), is_floating(x.dtype()) ? x.dtype() : DType::i64}};
}
}  // namespace

OutSpecs Cumprod::infer(Inputs in, const Attrs&) { return accumulated(in[0]); }

OutSpecs CumprodBackward::infer(Inputs in, const Attrs&) {
  return {{in[1].shape(), in[1].dtype()}};
}

OutSpecs Cumsum::infer(Inputs in, const Attrs&) { return accumulated(in[0]); }

std::span<OpInfo* const> scan_ops() { return infos_of(ScanOps{}); }

// Gradients of the cumulative sums and products.

Grads Cumprod::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Cumprod>();
  if (!grad_enabled()) return {apply_with<CumprodBackward>(attrs, gy[0], saved.inputs[0])};
  const Tensor x = wide(saved.inputs[0]), g = wide(gy[0]);
  if (x.dim() == 0) return {g};
  return {product_before(x, attrs.dim) * backward_recurrence(g, x, attrs.dim)};
}

Grads Cumsum::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Cumsum>();
  return {apply_with<Cumsum>({attrs.dim, !attrs.reversed}, gy[0])};
}

}  // namespace mezzo::op

namespace mezzo {

Tensor cumprod(const Tensor& x, std::int64_t dim, const ScanOptions& options) {
  return converted<op::Cumprod>(x, {wrap_dim(dim, x.dim(), "cumprod")}, options.dtype);
}

const Tensor& cumprod_(const Tensor& self, std::int64_t dim) {
  return apply_in_place<op::Cumprod>({wrap_dim(dim, self.dim(), "cumprod_")}, self);
}

Tensor cumsum(const Tensor& x, std::int64_t dim, const ScanOptions& options) {
  return converted<op::Cumsum>(x, {wrap_dim(dim, x.dim(), "cumsum")}, options.dtype);
}

const Tensor& cumsum_(const Tensor& self, std::int64_t dim) {
  return apply_in_place<op::Cumsum>({wrap_dim(dim, self.dim(), "cumsum_")}, self);
}

}  // namespace mezzo
