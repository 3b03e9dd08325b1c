#include "novograd.h"

#include <limits>

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

void FusedNovoGradRule::check(const Options& o) {
  const OptionChecks check(type_name);
  check.adaptive(o);
  check.require(o.norm_type == 2 || o.norm_type == 0, "norm_type", o.norm_type,
                "2 (L2) or 0 (the largest magnitude)");
  check.without_amsgrad(o.amsgrad);
}

NovoGradSettings FusedNovoGradRule::settings(const Options& o, std::int64_t step, bool fresh) {
  return {
      .lr = o.lr,
      .beta1 = o.betas.first,
      .beta3 = o.grad_averaging ? 1 - o.betas.first : 1,
      .eps = o.eps,
      .weight_decay = o.weight_decay,
      .correction1 = bias_correction(o.betas.first, step, o.bias_correction),
      .correction2 = std::sqrt(bias_correction(o.betas.second, step, o.bias_correction)),
      .reg_inside_moment = o.reg_inside_moment,
      .running = {
          .beta2 = o.betas.second, .max_norm = o.norm_type == 0, .first = fresh && !o.init_zero}};
}

namespace {

constexpr std::size_t kNorm = 1;  // index of the running norm among the states

Norms gradient_norms(std::span<const UpdateTensors> tensors, double p, const Factor& inv_scale) {
  std::vector<Tensor> grads;
  for (const UpdateTensors& t : tensors) grads.push_back(t.grad);
  return norms(grads, {.p = p, .inv_scale = inv_scale});
}

}  // namespace

void FusedNovoGradRule::run(std::span<UpdateTensors> tensors, std::span<NovoGradSettings> settings,
                            const UpdateCall& call) {
  constexpr double kMax = std::numeric_limits<double>::infinity();
  const auto any = [&](bool max_norm) {
    return std::any_of(settings.begin(), settings.end(),
                       [&](const NovoGradSettings& s) { return s.running.max_norm == max_norm; });
  };
  const Norms squares = any(false) ? gradient_norms(tensors, 2, call.inv_scale) : Norms{};
  const Norms largest = any(true) ? gradient_norms(tensors, kMax, call.inv_scale) : Norms{};

  std::vector<UpdateTensors> running;
  std::vector<NovoGradNormSettings> running_settings;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Norms& norms = settings[i].running.max_norm ? largest : squares;
    Tensor& v = tensors[i].state[kNorm];
    running.push_back({v, norms.each.select(0, static_cast<std::int64_t>(i)), {}, {}});
    running_settings.push_back(settings[i].running);
    settings[i].norm = v.raw_data();
    v = {};  // NovoGradUpdate reads it through its settings
  }
  // Allocates everything first: after the norms have changed, nothing may fail.
  const PreparedUpdate norms_step(update_row<NovoGradNormUpdate>, running, running_settings.data(),
                                  sizeof running_settings[0], {.found_inf = call.found_inf});
  const PreparedUpdate step(update_row<NovoGradUpdate>, tensors, settings.data(),
                            sizeof settings[0], call);
  norms_step.run();
  step.run();
}

template class OptimizerOf<FusedNovoGradRule>;

}  // namespace mezzo::optim
