// Generates text with a CharGpt, one character at a time.
#pragma once

#include "../common/text.h"
#include "char_gpt.h"

namespace samples {

using namespace mezzo;

/** Returns `prompt` (i64 [n], n >= 1) followed by `count` generated characters. The cache avoids
 *  recomputing previous characters. When the block is full, the cache is rebuilt from its second
 *  half. */
inline std::vector<std::int64_t> write(const CharGpt& net, const Tensor& prompt, std::int64_t count,
                                       double temperature) {
  const NoGrad no_grad;
  const bool training = net.training();
  net.eval();
  const Device device = net.token.weight().device();
  std::vector<std::int64_t> written = prompt.to_vector<std::int64_t>();
  nn::KeyValueCache cache;
  for (std::int64_t i = 0; i < count; ++i) {
    if (cache.seen == net.options.block) cache = {};
    const auto length = static_cast<std::int64_t>(written.size());
    const std::int64_t unread =
        cache.seen > 0 ? 1 : std::min(length, std::max<std::int64_t>(1, net.options.block / 2));
    const std::vector<double> tail(written.end() - unread, written.end());
    const Tensor x = tensor(tail, Shape{1, unread}, {.dtype = i64}).to(device);
    written.push_back(draw_character(net(x, &cache)[0][unread - 1].to(cpu), temperature));
  }
  net.train(training);
  return written;
}

}  // namespace samples
