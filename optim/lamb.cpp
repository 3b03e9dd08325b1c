#include "lamb.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

void FusedLambRule::check(const Options& o) {
  const OptionChecks check(type_name);
  check.adaptive(o);
  check.finite("max_grad_norm", o.max_grad_norm);
}

namespace {

constexpr std::size_t kDirection = kState + 2;  // a state of LambDirectionUpdate

}  // namespace

void FusedLambRule::run(std::vector<TensorTuple> tensors, std::span<LambSettings> settings,
                        const UpdateCall& call) {
  // Allocates everything first: after the moments have changed, nothing may fail.
  add_workspace(tensors, kDirection);
  std::vector<Tensor> params_and_directions = list_of(tensors, kParam);
  for (const TensorTuple& t : tensors) params_and_directions.push_back(t[kDirection]);
  UpdateCall direction{
      .inv_scale = call.inv_scale, .found_inf = call.found_inf, .write_back = call.write_back};
  const auto [lengths, measure] = prepared_norms(params_and_directions, &direction);
  const Norms of_gradients = norms(list_of(tensors, kGrad), {.inv_scale = call.inv_scale});

  const double* of_params = lengths.each.data<double>();
  std::vector<TensorTuple> steps;
  std::vector<LambStepSettings> rates;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    LambSettings& s = settings[i];
    s.global_norm = of_gradients.total.data<double>();
    const bool adapts = s.use_nvlamb || s.weight_decay != 0;
    steps.push_back({tensors[i][kParam], tensors[i][kDirection], tensors[i][kLowCopy]});
    rates.push_back({adapts ? of_params + i : nullptr, of_params + tensors.size() + i, s.time});
  }
  const auto direct = prepared_update(update_row<LambDirectionUpdate>, std::move(tensors),
                                      settings.data(), direction);
  const auto step = prepared_update(update_row<LambStepUpdate>, std::move(steps), rates.data(),
                                    {.found_inf = call.found_inf, .end = call.end});
  direct();
  measure();
  step();
}

template class OptimizerOf<FusedLambRule>;

}  // namespace mezzo::optim
