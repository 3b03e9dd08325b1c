#include "clip.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <unordered_set>

#include "../autograd/gradient_mark.h"
#include "../tensor/core/dispatch.h"
#include "../tensor/core/error.h"
#include "../tensor/ops/elementwise/operators.h"
#include "../tensor/text/text.h"
#include "scaled_gradients.h"
#include "step/tensor_list.h"

namespace mezzo::optim {

namespace {

std::atomic<void (*)(std::string_view, const Tensor&)> clip_check = nullptr;

/** Returns the gradients of the parameters that have one, once for each parameter. */
std::vector<Tensor> gradients_of(std::string_view op, TensorList params) {
  std::vector<Tensor> out;
  std::unordered_set<const TensorImpl*> seen;
  for (const Tensor& p : params) {
    if (!seen.insert(p.impl()).second) continue;
    if (p.impl()->twin == Twin::low)
      fail<StateError>(op, {.what = "an f32 master is updated instead of this parameter",
                            .got = str(p),
                            .expected = "the master, whose gradient is unscaled",
                            .hint = "pass amp::master_params(optimizer)"});
    require_unscaled_gradient(p, op);
    if (const auto check = clip_check.load()) check(op, p);
    if (const Tensor g = p.grad(); g.defined()) out.push_back(g);
  }
  return out;
}

}  // namespace

void set_clip_check(void (*check)(std::string_view, const Tensor&)) noexcept { clip_check = check; }

namespace {

/** Returns what multiplies the gradients in place. A tensor that is the gradient of two parameters
 *  is multiplied once. */
std::vector<AxpbyTensors> in_place(const std::vector<Tensor>& grads) {
  std::vector<AxpbyTensors> items;
  std::unordered_set<const void*> seen;
  for (const Tensor& g : grads)
    if (seen.insert(g.raw_data()).second) items.push_back({g, {}, g});
  return items;
}

bool any_wide(const std::vector<Tensor>& grads) {
  return std::any_of(grads.begin(), grads.end(),
                     [](const Tensor& g) { return g.dtype() == DType::f64; });
}

/** Clips without a host synchronisation: where the norm is small enough, gradients are multiplied
 *  by 1, which leaves them unchanged. */
Tensor clip_on_device(const std::vector<Tensor>& grads, double max_norm, double norm_type) {
  const bool wide = any_wide(grads);
  const CastScope no_casts(nullptr);
  const Tensor norm = norms(grads, {.p = norm_type}).total;
  Factor factor;
  factor.norm = norm.data<double>();
  factor.max_norm = max_norm;
  factor.norm_is_f32 = !wide;
  Tensor rounded = norm.to(wide ? DType::f64 : DType::f32);  // allocated before gradients change
  axpby(in_place(grads), factor, 0);
  return rounded;
}

}  // namespace

Tensor clip_grad_norm(TensorList params, double max_norm, const ClipOptions& options) {
  const ApiScope called("clip_grad_norm");
  const TraceRange range("clip_grad_norm");
  if (!(max_norm >= 0))
    fail<ValueError>("clip_grad_norm",
                     {.what = "max_norm must not be negative", .got = str(max_norm)});
  const std::vector<Tensor> grads = gradients_of("clip_grad_norm", params);
  if (!options.error_if_nonfinite && !grads.empty() && grads[0].device() != cpu)
    return clip_on_device(grads, max_norm, options.norm_type);
  const bool wide = any_wide(grads);
  const CastScope no_casts(nullptr);
  const Tensor total = norms(grads, {.p = options.norm_type}).total;
  Tensor norm = total.to(wide ? DType::f64 : DType::f32);
  const double value = norm.item<double>();
  if (options.error_if_nonfinite && !std::isfinite(value))
    fail<ValueError>("clip_grad_norm",
                     {.what = "the norm of the gradients is not finite",
                      .got = str(value),
                      .hint = "lower the learning rate, or clip with error_if_nonfinite off"});
  const double factor = clip_factor(clipping_norm(total.item<double>(), !wide), max_norm);
  if (factor >= 1) return norm;
  axpby(in_place(grads), factor, 0);
  return norm;
}

void clip_grad_value(TensorList params, double limit) {
  if (!(limit >= 0))
    fail<ValueError>("clip_grad_value",
                     {.what = "the limit must not be negative", .got = str(limit)});
  const TraceRange range("clip_grad_value");
  const NoGradNoCasts plain_ops;
  const std::vector<Tensor> grads = gradients_of("clip_grad_value", params);
  const Tensor low = operand(-limit), high = operand(limit);
  for (const Tensor& g : grads) clamp_(g, low, high);
}

}  // namespace mezzo::optim
