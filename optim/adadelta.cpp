#include "adadelta.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

void AdadeltaRule::check(const Options& o) {
  const OptionChecks check(type_name);
  check.not_negative("lr", o.lr);
  check.fraction("rho", o.rho);
  check.not_negative("eps", o.eps);
  check.not_negative("weight_decay", o.weight_decay);
}

AdadeltaSettings AdadeltaRule::settings(const Options& o, std::int64_t, bool) {
  return {.lr = o.lr,
          .rho = o.rho,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .maximize = o.maximize};
}

template class OptimizerOf<AdadeltaRule>;

}  // namespace mezzo::optim
