// The workload of digit classifiers.
#pragma once

#include "workload.h"

namespace samples {

/** Returns a workload that trains a net on batches of generated digits with Adam. */
template <class Net>
std::unique_ptr<Workload> digits_workload(const Setting& setting, const Net& net,
                                          std::int64_t batch) {
  const auto digits = mezzo::data::synthetic_digits(kBatches * batch, setting.seed);
  return supervised(setting,
                    {.model = net,
                     .optimizer = std::make_shared<mezzo::optim::Adam>(
                         net.parameters(), mezzo::optim::AdamOptions{.lr = 1e-3}),
                     .loss = [net](const mezzo::Batch& b) { return cross_entropy(net(b.x), b.y); },
                     .batches = batches_of(digits, digits.size() / kBatches)},
                    {{"optimizer", "adam"}, {"lr", "1e-3"}});
}

}  // namespace samples
