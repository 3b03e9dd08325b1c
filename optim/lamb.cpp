#include "lamb.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"
#include "workspace.h"

namespace mezzo::optim {

void FusedLambRule::check(const Options& o) {
  const OptionChecks check(type_name);
  check.adaptive(o);
  check.finite("max_grad_norm", o.max_grad_norm);
  check.without_amsgrad(o.amsgrad);
}

LambSettings FusedLambRule::settings(const Options& o, std::int64_t step, bool) {
  return {.lr = o.lr,
          .beta1 = o.betas.first,
          .beta2 = o.betas.second,
          .beta3 = o.grad_averaging ? 1 - o.betas.first : 1,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .correction1 = bias_correction(o.betas.first, step, o.bias_correction),
          .correction2 = bias_correction(o.betas.second, step, o.bias_correction),
          .max_grad_norm = o.max_grad_norm,
          .decoupled = o.adam_w_mode,
          .adapts = o.use_nvlamb || o.weight_decay != 0};
}

namespace {

constexpr std::size_t kDirection = 2;  // index among the states of LambDirectionUpdate

}  // namespace

void FusedLambRule::run(std::span<UpdateTensors> tensors, std::span<LambSettings> settings,
                        const UpdateCall& call) {
  // Allocates everything first: after the moments have changed, nothing may fail.
  add_workspace(tensors, kDirection);
  std::vector<Tensor> grads, params_and_directions;
  for (const UpdateTensors& t : tensors) grads.push_back(t.grad);
  for (const UpdateTensors& t : tensors) params_and_directions.push_back(t.param);
  for (const UpdateTensors& t : tensors) params_and_directions.push_back(t.state[kDirection]);
  const PreparedNorms lengths(params_and_directions);
  const Norms of_gradients = norms(grads, {.inv_scale = call.inv_scale});

  for (LambSettings& s : settings) s.global_norm = of_gradients.total.data<double>();
  const PreparedUpdate directions(update_row<LambDirectionUpdate>, tensors, settings.data(),
                                  sizeof settings[0], call);
  const double* of_params = lengths.result().each.data<double>();
  std::vector<UpdateTensors> steps;
  std::vector<LambStepSettings> rates;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    steps.push_back({tensors[i].param, tensors[i].state[kDirection], tensors[i].low_copy, {}});
    rates.push_back({settings[i].lr, settings[i].adapts ? of_params + i : nullptr,
                     of_params + tensors.size() + i, settings[i].time});
  }
  const PreparedUpdate step(update_row<LambStepUpdate>, steps, rates.data(), sizeof rates[0],
                            {.found_inf = call.found_inf});
  directions.run();
  lengths.run();
  step.run();
}

template class OptimizerOf<FusedLambRule>;

}  // namespace mezzo::optim
