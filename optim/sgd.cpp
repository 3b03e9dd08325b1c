#include "sgd.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

namespace {

template <class Options> void check_sgd(std::string_view type_name, const Options& o) {
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

template <class Options> SgdSettings sgd_settings(const Options& o, bool fresh, bool decay_last) {
  return {.lr = o.lr,
          .momentum = o.momentum,
          .dampening = o.dampening,
          .weight_decay = o.weight_decay,
          .nesterov = o.nesterov,
          .first = fresh,
          .decay_last = decay_last};
}

}  // namespace

void SgdRule::check(const Options& options) { check_sgd(type_name, options); }
void FusedSgdRule::check(const Options& options) { check_sgd(type_name, options); }

SgdSettings SgdRule::settings(const Options& options, std::int64_t, bool fresh) {
  SgdSettings settings = sgd_settings(options, fresh, false);
  settings.maximize = options.maximize;
  return settings;
}
SgdSettings FusedSgdRule::settings(const Options& options, std::int64_t, bool fresh) {
  return sgd_settings(options, fresh, options.wd_after_momentum);
}

bool FusedSGD::materializes_master_grads() const {
  return num_groups() == 0 || options(0).materialize_master_grads;
}

template class OptimizerOf<SgdRule>;
template class OptimizerOf<FusedSgdRule>;

}  // namespace mezzo::optim
