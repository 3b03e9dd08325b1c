#include "sgd.h"

#include <cmath>

#include "../tensor/text.h"
#include "optimizer_of_members.h"

namespace mezzo::optim {

void SgdRule::check(const Options& o) {
  const auto require = [](bool holds, std::string_view option, double got, std::string_view expected) {
    detail::require_option(holds, type_name, option, got, expected);
  };
  require(o.lr >= 0 && std::isfinite(o.lr), "lr", o.lr, "a finite number >= 0");
  require(o.momentum >= 0 && std::isfinite(o.momentum), "momentum", o.momentum, "a finite number >= 0");
  require(std::isfinite(o.dampening), "dampening", o.dampening, "a finite number");
  require(o.weight_decay >= 0 && std::isfinite(o.weight_decay), "weight_decay", o.weight_decay,
          "a finite number >= 0");
  if (o.nesterov && (o.momentum <= 0 || o.dampening != 0))
    fail<ValueError>(type_name, {.what = "nesterov needs momentum and no dampening",
                                 .got = str("momentum ", o.momentum, " and dampening ", o.dampening),
                                 .expected = "momentum > 0 and dampening 0"});
}

SgdSettings SgdRule::settings(const Options& o, std::int64_t, bool fresh) {
  return {.lr = o.lr,
          .momentum = o.momentum,
          .dampening = o.dampening,
          .weight_decay = o.weight_decay,
          .nesterov = o.nesterov,
          .first = fresh};
}

template class OptimizerOf<SgdRule>;

}  // namespace mezzo::optim
