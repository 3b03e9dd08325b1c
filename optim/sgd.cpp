#include "sgd.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

template <bool kFused> void SgdRuleOf<kFused>::check(const Options& o) {
  const OptionChecks check(type_name);
  check.not_negative("lr", o.lr);
  check.not_negative("momentum", o.momentum);
  check.finite("dampening", o.dampening);
  check.not_negative("weight_decay", o.weight_decay);
  if (o.nesterov && (o.momentum <= 0 || o.dampening != 0))
    fail<ValueError>(type_name,
                     {.what = "nesterov needs momentum and no dampening",
                      .got = str("momentum ", o.momentum, " and dampening ", o.dampening),
                      .expected = "momentum > 0 and dampening 0"});
}

template class OptimizerOf<SgdRuleOf<false>>;
template class OptimizerOf<SgdRuleOf<true>>;

}  // namespace mezzo::optim
