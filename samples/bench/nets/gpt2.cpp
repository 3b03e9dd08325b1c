// The workload of gpt2: nn::models::gpt2 on characters. At size full it has GPT-2's smallest size,
// with a vocabulary that is a multiple of 64.
#include "../net_workloads.h"

namespace samples {

using namespace mezzo;

std::unique_ptr<Workload> make_gpt2(const Setting& s) {
  const std::int64_t characters = Text::built_in().vocabulary();
  const nn::models::GPT2Options options{
      .vocab_size = s.pick<std::int64_t>(characters, characters, 50304),
      .n_positions = s.pick(16, 64, 1024),
      .n_embd = s.pick_width(16, 128, 768),
      .n_layer = s.pick(2, 4, 12),
      .n_head = s.pick(2, 4, 12),
      .embd_pdrop = 0,
      .attn_pdrop = 0,
      .resid_pdrop = 0};
  return text_workload(
      s, nn::models::GPT2LMHeadModel(options),
      {.batch = s.pick_batch(4, 12, 16), .length = options.n_positions, .heads = options.n_head});
}

}  // namespace samples
