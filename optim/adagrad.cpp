#include "adagrad.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

void FusedAdagradRule::check(const Options& o) {
  const OptionChecks check(type_name);
  check.not_negative("lr", o.lr);
  check.not_negative("eps", o.eps);
  check.not_negative("weight_decay", o.weight_decay);
}

AdagradSettings FusedAdagradRule::settings(const Options& o, std::int64_t, bool) {
  return {.lr = o.lr, .eps = o.eps, .weight_decay = o.weight_decay, .decoupled = o.adagrad_w_mode};
}

template class OptimizerOf<FusedAdagradRule>;

}  // namespace mezzo::optim
