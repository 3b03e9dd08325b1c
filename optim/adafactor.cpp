#include "adafactor.h"

#include <cmath>
#include <limits>
#include <vector>

#include "../tensor/ops/elementwise/operators.h"
#include "../tensor/ops/elementwise/power.h"
#include "../tensor/ops/elementwise/selection.h"
#include "../tensor/ops/reduce/reduce.h"
#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

void AdafactorRule::check(const Options& o) {
  const OptionChecks check(type_name);
  check.not_negative("lr", o.lr);
  check.require(o.beta2_decay <= 0 && std::isfinite(o.beta2_decay), "beta2_decay", o.beta2_decay,
                "a finite number <= 0");
  if (o.eps.first) check.not_negative("eps.first", *o.eps.first);
  check.not_negative("eps.second", o.eps.second);
  check.require(o.d >= 1 && std::isfinite(o.d), "d", o.d, "a finite number >= 1");
  check.not_negative("weight_decay", o.weight_decay);
}

namespace {

// In the order of AdafactorRule::states.
constexpr std::size_t kRow = kState, kColumn = kState + 1, kVariance = kState + 2;

/** Returns the unscaled gradients in the dtype of the arithmetic, in the layout of their
 *  parameters. */
std::vector<Tensor> scaled_gradients(std::span<const TensorTuple> tensors,
                                     const Factor& inv_scale) {
  std::vector<Tensor> out;
  std::vector<AxpbyTensors> items;
  for (const TensorTuple& t : tensors) {
    out.push_back(compute_like(t[kParam]));
    items.push_back({t[kGrad], {}, out.back()});
  }
  axpby(items, inv_scale, 0);
  return out;
}

/** The updates of running means: those of tensor i are at first[i] and after it. */
struct Means {
  std::vector<TensorTuple> updates;
  std::vector<AdafactorSettings> settings;
  std::vector<std::size_t> first;

  void add(const Tensor& mean, const Tensor& fresh, const AdafactorSettings& how) {
    updates.push_back({mean, fresh});
    settings.push_back(how);
  }
  /** Returns the means as they will be, in new memory. */
  std::vector<Tensor> updated() const {
    std::vector<TensorTuple> copies = updates;
    std::vector<Tensor> out;
    for (TensorTuple& copy : copies) out.push_back(copy[kParam] = copy[kParam].clone());
    run_update(update_row<AdafactorMeanUpdate>, std::move(copies), settings.data());
    return out;
  }
};

Means means_of(std::span<const TensorTuple> tensors, std::span<const Tensor> grads,
               std::span<const AdafactorSettings> settings) {
  Means means;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    means.first.push_back(means.updates.size());
    if (grads[i].numel() == 0) continue;
    const TensorTuple& t = tensors[i];
    const Tensor squares = square(grads[i]);
    if (t[kVariance].defined()) {
      means.add(t[kVariance], squares, settings[i]);
    } else {
      means.add(t[kRow], mean(squares, {-1}, {.keepdim = true}), settings[i]);
      means.add(t[kColumn], mean(squares, {-2}, {.keepdim = true}), settings[i]);
    }
  }
  return means;
}

/** Multiplies a gradient by the inverse root of the second moments, of which `means` are the rows
 *  and columns or, if `is_vector`, the elements. */
void divide_by_root(const Tensor& grad, std::span<const Tensor> means, bool is_vector,
                    double eps1) {
  if (eps1 < 0)
    eps1 = grad.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                      : std::numeric_limits<float>::epsilon();
  Tensor moments = means[0];
  if (!is_vector) {
    const Tensor all = mean(moments, {-2}, {.keepdim = true});
    if (const auto kernel = list_kernels(grad.device().kind).factored_root)
      return kernel(grad, moments, means[1], all, eps1);
    moments = moments * means[1] / clamp(all, {.min = eps1});
  }
  grad.mul_(rsqrt(clamp(moments, {.min = eps1 * eps1})));
}

}  // namespace

void AdafactorRule::run(std::vector<TensorTuple> tensors, std::span<AdafactorSettings> settings,
                        const UpdateCall& call) {
  const CategoryScope workspace(MemoryCategory::workspace);
  // Directions are computed from copies of the means. The last passes compute the new means again,
  // and alone change anything.
  const std::vector<Tensor> directions = scaled_gradients(tensors, call.inv_scale);
  const Means means = means_of(tensors, directions, settings);
  const std::vector<Tensor> updated = means.updated();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (directions[i].numel() > 0)
      divide_by_root(directions[i], std::span(updated).subspan(means.first[i]),
                     tensors[i][kVariance].defined(), settings[i].eps.first.value_or(-1));

  std::vector<Tensor> params_and_directions = list_of(tensors, kParam);
  params_and_directions.insert(params_and_directions.end(), directions.begin(), directions.end());
  const auto [lengths, measure] = prepared_norms(params_and_directions);
  const double* norms = lengths.each.data<double>();
  std::vector<TensorTuple> steps;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorTuple& t = tensors[i];
    steps.push_back({t[kParam], t[kGrad], t[kLowCopy], directions[i]});
    settings[i].root_numel = std::sqrt(static_cast<double>(directions[i].numel()));
    settings[i].param_norm = norms + i;
    settings[i].direction_norm = norms + tensors.size() + i;
  }
  const auto step = prepared_update(update_row<AdafactorUpdate>, std::move(steps), settings.data(),
                                    call),
             keep = prepared_update(update_row<AdafactorMeanUpdate>, means.updates,
                                    means.settings.data(), {.found_inf = call.found_inf});
  measure();
  keep();
  step();
}

template class OptimizerOf<AdafactorRule>;

}  // namespace mezzo::optim
