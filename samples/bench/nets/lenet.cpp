// The convolutional net of mnist.
#include "../../nets/lenet.h"

#include "../workload.h"

namespace samples {

std::unique_ptr<Workload> make_lenet(const Setting& s) {
  const LeNet net(s.pick(4, 32, 32));
  const auto digits = data::synthetic_digits(kBatches * s.pick_batch(8, 128, 1024), s.seed);
  const auto optimizer = std::make_shared<optim::Adam>(net.parameters(), optim::AdamOptions{.lr = 1e-3});
  return supervised(s,
                    {.net = net,
                     .optimizer = optimizer,
                     .loss = [net](const Batch& b) { return cross_entropy(net(b.x), b.y); },
                     .batches = batches_of(digits, digits.size() / kBatches)},
                    {{"optimizer", "adam"}, {"lr", "1e-3"}});
}

}  // namespace samples
