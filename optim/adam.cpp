#include "adam.h"

#include <cmath>

#include "../tensor/text.h"
#include "optimizer_of_members.h"

namespace mezzo::optim {

namespace {

template <class Options> void check_adam(std::string_view type_name, const Options& o) {
  const auto require = [&](bool holds, std::string_view option, double got, std::string_view expected) {
    detail::require_option(holds, type_name, option, got, expected);
  };
  const auto not_negative = [&](std::string_view option, double got) {
    require(got >= 0 && std::isfinite(got), option, got, "a finite number >= 0");
  };
  not_negative("lr", o.lr);
  require(o.betas.first >= 0 && o.betas.first < 1, "betas.first", o.betas.first, "a number in [0, 1)");
  require(o.betas.second >= 0 && o.betas.second < 1, "betas.second", o.betas.second, "a number in [0, 1)");
  not_negative("eps", o.eps);
  not_negative("weight_decay", o.weight_decay);
}

template <class Options> AdamSettings adam_settings(const Options& o, std::int64_t step, bool decoupled) {
  const double t = static_cast<double>(step);
  return {.lr = o.lr,
          .beta1 = o.betas.first,
          .beta2 = o.betas.second,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .correction1 = 1 / (1 - std::pow(o.betas.first, t)),
          .correction2 = 1 / (1 - std::pow(o.betas.second, t)),
          .decoupled = decoupled};
}

}  // namespace

void AdamRule::check(const Options& options) { check_adam(type_name, options); }
void AdamWRule::check(const Options& options) { check_adam(type_name, options); }

AdamSettings AdamRule::settings(const Options& options, std::int64_t step, bool) {
  return adam_settings(options, step, false);
}
AdamSettings AdamWRule::settings(const Options& options, std::int64_t step, bool) {
  return adam_settings(options, step, true);
}

template class OptimizerOf<AdamRule>;
template class OptimizerOf<AdamWRule>;

}  // namespace mezzo::optim
