// The workload of char_gpt: a transformer.
#include "../../nets/char_gpt.h"

#include "../net_workloads.h"

namespace samples {

std::unique_ptr<Workload> make_char_gpt(const Setting& s) {
  const CharGpt net({.vocabulary = Text::built_in().vocabulary(),
                     .block = s.pick(16, 64, 256),
                     .layers = s.pick(2, 4, 6),
                     .heads = s.pick(2, 4, 6),
                     .width = s.pick_width(16, 128, 384)});
  return text_workload(
      s, net,
      {.batch = s.pick_batch(4, 12, 64), .length = net.options.block, .heads = net.options.heads});
}

}  // namespace samples
