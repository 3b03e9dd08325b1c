#include "nadam.h"

#include "optimizer_of_members.h"
#include "option_checks.h"
#include "updates.h"

namespace mezzo::optim {

void NAdamRule::check(const Options& o) {
  const OptionChecks check(type_name);
  check.adaptive(o);
  check.not_negative("momentum_decay", o.momentum_decay);
}

NAdamSettings NAdamRule::settings(const Options& o, std::int64_t step, bool fresh) {
  return {.lr = o.lr,
          .beta1 = o.betas.first,
          .beta2 = o.betas.second,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .momentum_decay = o.momentum_decay,
          .correction2 = bias_correction(o.betas.second, step),
          .step = step,
          .decoupled = o.decoupled_weight_decay,
          .maximize = o.maximize,
          .first = fresh};
}

void NAdamRule::run(std::span<UpdateTensors> tensors, std::span<NAdamSettings> settings,
                    const UpdateCall& call) {
  constexpr std::size_t kProduct = 2;  // index of the product among the states
  std::vector<UpdateTensors> products;
  std::vector<NAdamProductSettings> product_settings;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    NAdamSettings& s = settings[i];
    Tensor& product = tensors[i].state[kProduct];
    s.product = product.raw_data();
    products.push_back({product, product, {}, {}});  // its formula reads no gradient
    product_settings.push_back({.beta1 = s.beta1,
                                .momentum_decay = s.momentum_decay,
                                .step = s.step,
                                .first = s.first,
                                .time = s.time});
    product = {};  // NAdamUpdate reads it through its settings
  }
  // Allocates everything first: after the products have changed, nothing may fail.
  const PreparedUpdate products_step(update_row<NAdamProductUpdate>, products,
                                     product_settings.data(), sizeof product_settings[0],
                                     {.found_inf = call.found_inf});
  const PreparedUpdate step(update_row<NAdamUpdate>, tensors, settings.data(), sizeof settings[0],
                            call);
  products_step.run();
  step.run();
}

template class OptimizerOf<NAdamRule>;

}  // namespace mezzo::optim
