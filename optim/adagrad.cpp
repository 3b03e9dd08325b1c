#include "adagrad.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

void AdagradRule::check(const Options& o) {
  const OptionChecks check(type_name);
  check.not_negative("lr", o.lr);
  check.not_negative("lr_decay", o.lr_decay);
  check.not_negative("weight_decay", o.weight_decay);
  check.not_negative("initial_accumulator_value", o.initial_accumulator_value);
  check.not_negative("eps", o.eps);
}

AdagradSettings AdagradRule::settings(const Options& o, std::int64_t step, bool fresh) {
  return {.lr = o.lr,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .decoupled = false,
          .lr_decay = o.lr_decay,
          .initial = o.initial_accumulator_value,
          .step = step,
          .first = fresh,
          .maximize = o.maximize};
}

void FusedAdagradRule::check(const Options& o) {
  const OptionChecks check(type_name);
  check.not_negative("lr", o.lr);
  check.not_negative("eps", o.eps);
  check.not_negative("weight_decay", o.weight_decay);
}

AdagradSettings FusedAdagradRule::settings(const Options& o, std::int64_t, bool) {
  return {.lr = o.lr, .eps = o.eps, .weight_decay = o.weight_decay, .decoupled = o.adagrad_w_mode};
}

template class OptimizerOf<AdagradRule>;
template class OptimizerOf<FusedAdagradRule>;

}  // namespace mezzo::optim
