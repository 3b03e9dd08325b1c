#include "radam.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

void RAdamRule::check(const Options& o) { OptionChecks(type_name).adaptive(o); }

RAdamSettings RAdamRule::settings(const Options& o, std::int64_t step, bool) {
  return {.lr = o.lr,
          .beta1 = o.betas.first,
          .beta2 = o.betas.second,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .correction1 = bias_correction(o.betas.first, step),
          .correction2 = bias_correction(o.betas.second, step),
          .step = step,
          .decoupled = o.decoupled_weight_decay,
          .maximize = o.maximize};
}

template class OptimizerOf<RAdamRule>;

}  // namespace mezzo::optim
