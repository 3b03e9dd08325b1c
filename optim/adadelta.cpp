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

template class OptimizerOf<AdadeltaRule>;

}  // namespace mezzo::optim
