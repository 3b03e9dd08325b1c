// The multi-layer perceptron of mnist.
#include "../../nets/mlp.h"

#include "../workload.h"

namespace samples {

std::unique_ptr<Workload> make_mlp(const Setting& s) {
  const Mlp net(s.pick(64, 1024, 4096));
  const auto digits = data::synthetic_digits(kBatches * s.pick_batch(16, 128, 512), s.seed);
  const auto optimizer = std::make_shared<optim::Adam>(net.parameters(), optim::AdamOptions{.lr = 1e-3});
  return supervised(s,
                    {.net = net,
                     .optimizer = optimizer,
                     .loss = [net](const Batch& b) { return cross_entropy(net(b.x), b.y); },
                     .batches = batches_of(digits, digits.size() / kBatches)},
                    {{"optimizer", "adam"}, {"lr", "1e-3"}});
}

}  // namespace samples
