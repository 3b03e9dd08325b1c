// CharGpt: a decoder-only transformer like GPT-2.
#pragma once

#include <mezzo.h>
#include <cmath>

#include "../common/text.h"

namespace samples {

using namespace mezzo;

struct CharGptOptions {
  std::int64_t vocabulary = 256;  // number of different characters
  std::int64_t block = 256;       // maximum context length in characters
  std::int64_t layers = 6;        // number of blocks
  std::int64_t heads = 6;         // attention heads
  std::int64_t width = 384;       // embedding size
  double dropout = 0;             // dropout probability while training
};

/** Self-attention in which each character attends to itself and the previous ones. */
struct CausalAttention : nn::Model<CausalAttention> {
  explicit CausalAttention(const CharGptOptions& its_options) : options(its_options) {}

  Tensor forward(const Tensor& x, nn::KeysAndValues* past) const {
    // One matrix product computes queries, keys and values of all heads.
    return proj(nn::causal_self_attention(
        qkv(x), options.heads, {.dropout_p = training() ? options.dropout : 0, .past = past}));
  }

  CharGptOptions options;
  nn::Linear qkv = add("qkv", nn::Linear{options.width, 3 * options.width});
  nn::Linear proj = add("proj", nn::Linear{options.width, options.width});
};

/** The residual stream x + branch. The next layer norm computes the sum. */
struct Residual {
  Tensor x, branch;
};

/** Attention and a feed-forward net, each with layer norm on its input and a residual connection.
 */
struct Block : nn::Model<Block> {
  explicit Block(const CharGptOptions& its_options) : options(its_options) {}

  Residual forward(const Residual& in, nn::KeysAndValues* past) const {
    const auto [x, normal] = nn::add_layer_norm(norm1, in.x, in.branch);
    const auto [y, hidden] = nn::add_layer_norm(norm2, x, dropout(attention(normal, past)));
    return {y, dropout(nn::mlp(hidden, {up, down}, {.activation = MlpActivation::gelu}))};
  }

  CharGptOptions options;
  nn::LayerNorm norm1 = add("norm1", nn::LayerNorm{options.width});
  CausalAttention attention = add("attention", CausalAttention{options});
  nn::LayerNorm norm2 = add("norm2", nn::LayerNorm{options.width});
  nn::Linear up = add("up", nn::Linear{options.width, 4 * options.width});
  nn::Linear down = add("down", nn::Linear{4 * options.width, options.width});
  nn::Dropout dropout = add("dropout", nn::Dropout{options.dropout});
};

/** Maps characters [N,T], T <= block, to logits [N,T,vocabulary]. With a cache, the characters
 *  continue the cached ones.
 *  Source: Radford et al., Language models are unsupervised multitask learners (2019). */
struct CharGpt : nn::Model<CharGpt> {
  explicit CharGpt(const CharGptOptions& its_options = {}) : options(its_options) {
    for (std::int64_t i = 0; i < options.layers; ++i) blocks.push_back(Block{options});
    add("blocks", blocks);
    add("norm", norm);
    init_weights();
  }

  Tensor forward(const Tensor& characters, nn::KeyValueCache* cache = nullptr) const {
    if (cache != nullptr) cache->layers.resize(blocks.size());
    const std::int64_t seen = cache != nullptr ? cache->seen : 0;
    // Without dropout the first layer norm looks up the characters and adds their positions.
    Residual x = options.dropout > 0
                     ? Residual{dropout(position(token(characters), seen)), {}}
                     : Residual{token.late(characters), position.rows(characters.size(1), seen)};
    for (std::size_t i = 0; i < blocks.size(); ++i)
      x = blocks[i](x, cache != nullptr ? &cache->layers[i] : nullptr);
    if (cache != nullptr) cache->seen += characters.size(1);
    return head(nn::add_layer_norm(norm, x.x, x.branch).norm);
  }

  CharGptOptions options;
  nn::Embedding token = add("token", nn::Embedding{options.vocabulary, options.width});
  nn::LearnedPositionalEmbedding position =
      add("position",
          nn::LearnedPositionalEmbedding{options.block, options.width, {.batch_first = true}});
  nn::Dropout dropout = add("dropout", nn::Dropout{options.dropout});
  nn::ModuleList<Block> blocks;
  nn::LayerNorm norm{options.width};
  // The output layer shares its weight with the embedding.
  nn::Linear head = add("head", nn::Linear::tied(token.weight(), {.bias = false}));

 private:
  /** Initialises weights from N(0, 0.02^2). Weights of residual branches are smaller, so that the
   *  variance does not grow with the number of layers. */
  void init_weights() const {
    for (const nn::NamedTensor& p : named_parameters()) {
      if (p.name.ends_with("bias")) nn::init::zeros_(p.tensor);
      if (p.tensor.dim() < 2) continue;
      const bool adds = p.name.ends_with("proj.weight") || p.name.ends_with("down.weight");
      const double layers = static_cast<double>(options.layers);
      nn::init::normal_(p.tensor, 0, adds ? 0.02 / std::sqrt(2 * layers) : 0.02);
    }
  }
};

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
