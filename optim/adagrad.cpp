#include "adagrad.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

void AdagradRule::check(const Options& o, std::string_view of) {
  const OptionChecks check(of);
  check.not_negative("lr", o.lr);
  check.not_negative("lr_decay", o.lr_decay);
  check.not_negative("weight_decay", o.weight_decay);
  check.not_negative("initial_accumulator_value", o.initial_accumulator_value);
  check.not_negative("eps", o.eps);
}

template class OptimizerOf<AdagradRule>;
template class OptimizerOf<FusedAdagradRule>;

}  // namespace mezzo::optim
