#include "rmsprop.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

void RMSpropRule::check(const Options& o) {
  const OptionChecks check(type_name);
  check.not_negative("lr", o.lr);
  check.fraction("alpha", o.alpha);
  check.not_negative("eps", o.eps);
  check.not_negative("weight_decay", o.weight_decay);
  check.not_negative("momentum", o.momentum);
}

template class OptimizerOf<RMSpropRule>;

}  // namespace mezzo::optim
