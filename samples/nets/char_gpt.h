// CharGpt: a decoder-only transformer like GPT-2.
#pragma once

#include <mezzo.h>

#include <cmath>
#include <vector>

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

/** Keys and values of one layer for the previous characters, each [N, heads, seen, width / heads];
 *  undefined at first. */
struct KeysAndValues {
  Tensor keys, values;
};

/** Keys and values of all layers. With the cache, each further character is computed without
 *  recomputing the previous ones. */
struct KeyValueCache {
  std::vector<KeysAndValues> layers;
  std::int64_t seen = 0;  // number of cached characters
};

/** Self-attention in which each character attends to itself and the previous ones. */
struct CausalAttention : nn::Model<CausalAttention> {
  explicit CausalAttention(const CharGptOptions& its_options) : options(its_options) {}

  Tensor forward(const Tensor& x, KeysAndValues* past) const {
    // One matrix product computes queries, keys and values of all heads:
    // [N,T,3 width] -> 3 x [N, heads, T, width / heads].
    const Tensor all = qkv(x)
                           .unflatten(-1, {3, options.heads, options.width / options.heads})
                           .permute({2, 0, 3, 1, 4});
    const Tensor query = all[0];
    Tensor keys = all[1], values = all[2];
    const bool first = past == nullptr || !past->keys.defined();
    if (past != nullptr) {
      if (!first) keys = cat({past->keys, keys}, 2), values = cat({past->values, values}, 2);
      *past = {keys, values};
    }
    // A single character after cached ones attends to all of them, without a causal mask. Several
    // characters at once need the mask.
    const Tensor seen = scaled_dot_product_attention(
        query, keys, values, {.dropout_p = training() ? options.dropout : 0, .is_causal = first});
    return proj(seen.transpose(1, 2).flatten(2));
  }

  CharGptOptions options;
  nn::Linear qkv = add("qkv", nn::Linear{options.width, 3 * options.width});
  nn::Linear proj = add("proj", nn::Linear{options.width, options.width});
};

/** Attention and a feed-forward net, each with layer norm on its input and a residual connection.
 */
struct Block : nn::Model<Block> {
  explicit Block(const CharGptOptions& its_options) : options(its_options) {}

  Tensor forward(const Tensor& x, KeysAndValues* past) const {
    const Tensor y = x + dropout(attention(norm1(x), past));
    return y + dropout(down(gelu(up(norm2(y)))));
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
 *  continue the cached ones, one at a time after the first call.
 *  Source: Radford et al., Language models are unsupervised multitask learners (2019). */
struct CharGpt : nn::Model<CharGpt> {
  explicit CharGpt(const CharGptOptions& its_options = {}) : options(its_options) {
    for (std::int64_t i = 0; i < options.layers; ++i) blocks.push_back(Block{options});
    add("blocks", blocks);
    add("norm", norm);
    init_weights();
  }

  Tensor forward(const Tensor& characters, KeyValueCache* cache = nullptr) const {
    if (cache != nullptr) cache->layers.resize(blocks.size());
    if (cache != nullptr && cache->seen > 0 && characters.size(1) != 1)
      fail<ShapeError>("char_gpt", {.what = "several characters after cached ones",
                                    .got = str(characters),
                                    .expected = "one character at a time"});
    Tensor x = dropout(position(token(characters), cache != nullptr ? cache->seen : 0));
    for (std::size_t i = 0; i < blocks.size(); ++i)
      x = blocks[i](x, cache != nullptr ? &cache->layers[i] : nullptr);
    if (cache != nullptr) cache->seen += characters.size(1);
    return head(norm(x));
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

}  // namespace samples
