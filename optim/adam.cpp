#include "adam.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

namespace {

template <class Options> bool maximizes(const Options& o) {
  if constexpr (requires { o.maximize; })
    return o.maximize;
  else
    return false;
}

template <class Options>
AdamSettings adam_settings(const Options& o, std::int64_t step, bool decoupled,
                           bool corrected = true) {
  return {.lr = o.lr,
          .beta1 = o.betas.first,
          .beta2 = o.betas.second,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .correction1 = bias_correction(o.betas.first, step, corrected),
          .correction2 = bias_correction(o.betas.second, step, corrected),
          .decoupled = decoupled,
          .amsgrad = o.amsgrad,
          .maximize = maximizes(o)};
}

}  // namespace

void AdamRule::check(const Options& options) { OptionChecks(type_name).adaptive(options); }
void AdamWRule::check(const Options& options) { OptionChecks(type_name).adaptive(options); }

void FusedAdamRule::check(const Options& options) {
  const OptionChecks check(type_name);
  check.adaptive(options);
  check.without_amsgrad(options.amsgrad);
}

AdamSettings AdamRule::settings(const Options& options, std::int64_t step, bool) {
  return adam_settings(options, step, false);
}
AdamSettings AdamWRule::settings(const Options& options, std::int64_t step, bool) {
  return adam_settings(options, step, true);
}
AdamSettings FusedAdamRule::settings(const Options& options, std::int64_t step, bool) {
  return adam_settings(options, step, options.adam_w_mode, options.bias_correction);
}

template class OptimizerOf<AdamRule>;
template class OptimizerOf<AdamWRule>;
template class OptimizerOf<FusedAdamRule>;

}  // namespace mezzo::optim
