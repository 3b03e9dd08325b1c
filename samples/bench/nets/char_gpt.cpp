// The workload of char_gpt: a transformer.
#include "../../nets/char_gpt.h"

#include "../../common/text.h"
#include "../workload.h"

namespace samples {

std::unique_ptr<Workload> make_char_gpt(const Setting& s) {
  const Text text = Text::built_in();
  const CharGpt net({.vocabulary = text.vocabulary(),
                     .block = s.pick(16, 64, 256),
                     .layers = s.pick(2, 4, 6),
                     .heads = s.pick(2, 4, 6),
                     .width = s.pick_width(16, 128, 384)});
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < kBatches; ++i)
    batches.push_back(random_stretches(text.train(), s.pick_batch(4, 12, 64), net.options.block));
  const auto optimizer = std::make_shared<optim::AdamW>(
      net.parameters(), optim::AdamWOptions{.lr = 1e-3, .betas = {0.9, 0.99}, .weight_decay = 0.1});
  return supervised(
      s,
      {.model = net,
       .optimizer = optimizer,
       .loss =
           [net](const Batch& b) { return cross_entropy(net(b.x).flatten(0, 1), b.y.flatten()); },
       .batches = batches,
       .max_norm = 1},
      {{"optimizer", "adamw"},
       {"lr", "1e-3"},
       {"betas", "0.9,0.99"},
       {"weight_decay", "0.1"},
       {"heads", str(net.options.heads)}});
}

}  // namespace samples
