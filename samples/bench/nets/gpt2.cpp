// The workload of gpt2: nn::models::gpt2 on characters. At size full it has GPT-2's smallest size,
// with a vocabulary that is a multiple of 64.
#include "../../common/text.h"
#include "../workload.h"

namespace samples {

using namespace mezzo;

std::unique_ptr<Workload> make_gpt2(const Setting& s) {
  const Text text = Text::built_in();
  const nn::models::GPT2Options options{
      .vocab_size = s.pick<std::int64_t>(text.vocabulary(), text.vocabulary(), 50304),
      .n_positions = s.pick(16, 64, 1024),
      .n_embd = s.pick_width(16, 128, 768),
      .n_layer = s.pick(2, 4, 12),
      .n_head = s.pick(2, 4, 12),
      .embd_pdrop = 0,
      .attn_pdrop = 0,
      .resid_pdrop = 0};
  const nn::models::GPT2LMHeadModel net(options);
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < kBatches; ++i)
    batches.push_back(random_stretches(text.train(), s.pick_batch(4, 12, 16), options.n_positions));
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
       {"heads", str(options.n_head)}});
}

}  // namespace samples
