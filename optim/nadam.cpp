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

void NAdamRule::run(std::vector<TensorTuple> tensors, std::span<NAdamSettings> settings,
                    const UpdateCall& call) {
  constexpr std::size_t kProduct = kState + 2;
  std::vector<TensorTuple> products;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Tensor& product = tensors[i][kProduct];
    settings[i].product = product.raw_data();
    products.push_back({product, product});  // its formula reads no gradient
    product = {};                            // NAdamUpdate reads it through its settings
  }
  // Allocates everything first: after the products have changed, nothing may fail.
  const auto update_products = prepared_update(update_row<NAdamProductUpdate>, std::move(products),
                                               settings.data(), {.found_inf = call.found_inf}),
             step = prepared_update(update_row<NAdamUpdate>, std::move(tensors), settings.data(),
                                    call);
  update_products();
  step();
}

template class OptimizerOf<NAdamRule>;

}  // namespace mezzo::optim
