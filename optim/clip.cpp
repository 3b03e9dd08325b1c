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

}  // namespace

Tensor clip_grad_norm(TensorList params, double max_norm, const ClipOptions& options) {
  const ApiScope called("clip_grad_norm");
  const TraceRange range("clip_grad_norm");
  if (!(max_norm >= 0))
    fail<ValueError>("clip_grad_norm",
                     {.what = "max_norm must not be negative", .got = str(max_norm)});
  const std::vector<Tensor> grads = gradients_of("clip_grad_norm", params);
  const CastScope no_casts(nullptr);
  Factor factor;
  const Tensor total = clip_by_norm(grads, max_norm, factor, options.norm_type);
  // Allocated before gradients change.
  Tensor norm = total.to(factor.norm_is_f32 ? DType::f32 : DType::f64);
  // Without a host synchronisation: where the norm is small enough, gradients are multiplied by 1,
  // which leaves them unchanged.
  if (!options.error_if_nonfinite && !grads.empty() && grads[0].device() != cpu) {
    axpby(in_place(grads), factor, 0);
    return norm;
  }
  const double value = norm.item<double>();
  if (options.error_if_nonfinite && !std::isfinite(value))
    fail<ValueError>("clip_grad_norm",
                     {.what = "the norm of the gradients is not finite",
                      .got = str(value),
                      .hint = "lower the learning rate, or clip with error_if_nonfinite off"});
  const double number =
      clip_factor(clipping_norm(total.item<double>(), factor.norm_is_f32), max_norm);
  if (!(number >= 1)) axpby(in_place(grads), number, 0);
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
