#include "gpt2.h"

#include <cmath>

#include "../../tensor/ops/create.h"
#include "../../tensor/ops/elementwise/activation.h"
#include "../../tensor/ops/elementwise/compare.h"
#include "../../tensor/ops/elementwise/operators.h"
#include "../../tensor/ops/matmul/matmul.h"
#include "../../tensor/text/text.h"
#include "../arguments.h"
#include "../dropout.h"
#include "../embedding.h"
#include "../init.h"
#include "../load.h"
#include "../norm.h"
#include "../position.h"
#include "../sequential.h"
#include "../serialize.h"

namespace mezzo::nn::models {

namespace {

constexpr const char* kName = "GPT2LMHeadModel";

/** Returns the options after checking them. */
const GPT2Options& checked(const GPT2Options& o) {
  nn::detail::require_at_least(1, kName, "n_layer", o.n_layer);
  nn::detail::require_at_least(1, kName, "n_head", o.n_head);
  nn::detail::require_probability(kName, "attn_pdrop", o.attn_pdrop);
  if (o.n_embd % o.n_head != 0)
    fail<ValueError>(kName, {.what = "n_head does not divide n_embd",
                             .got = str(o.n_head, " heads for ", o.n_embd, " features")});
  return o;
}

/** A linear layer with the weight [in, out], under the name that transformers gives it. */
struct Conv1D : Model<Conv1D> {
  Conv1D(std::int64_t in, std::int64_t out)
      : weight(add_parameter("weight", empty({in, out}))),
        bias(add_parameter("bias", zeros({out}))) {}

  Tensor forward(const Tensor& x) const { return linear(x, weight.t(), bias); }

  Tensor weight, bias;
};

struct Attention : Model<Attention> {
  explicit Attention(const GPT2Options& o)
      : heads(o.n_head),
        dropout_p(o.attn_pdrop),
        c_attn(add("c_attn", Conv1D{o.n_embd, 3 * o.n_embd})),
        c_proj(add("c_proj", Conv1D{o.n_embd, o.n_embd})) {}

  Tensor forward(const Tensor& x, KeysAndValues* past) const {
    return c_proj(causal_self_attention(c_attn(x), heads,
                                        {.dropout_p = training() ? dropout_p : 0, .past = past}));
  }

  std::int64_t heads;
  double dropout_p;
  Conv1D c_attn, c_proj;
};

struct FeedForward : Model<FeedForward> {
  explicit FeedForward(const GPT2Options& o)
      : c_fc(add("c_fc", Conv1D{o.n_embd, 4 * o.n_embd})),
        c_proj(add("c_proj", Conv1D{4 * o.n_embd, o.n_embd})) {}

  Tensor forward(const Tensor& x) const {
    return c_proj(gelu(c_fc(x), {.approximate = GeluApproximation::tanh}));
  }

  Conv1D c_fc, c_proj;
};

/** The residual stream x + branch. The next layer norm computes the sum. */
struct Residual {
  Tensor x, branch;
};

/** Attention and a feed-forward net, each with layer norm on its input and a residual connection.
 */
struct Block : Model<Block> {
  explicit Block(const GPT2Options& o)
      : ln_1(add("ln_1", LayerNorm{o.n_embd})),
        attn(add("attn", Attention{o})),
        ln_2(add("ln_2", LayerNorm{o.n_embd})),
        mlp(add("mlp", FeedForward{o})),
        dropout(add("dropout", Dropout{o.resid_pdrop})) {}

  Residual forward(const Residual& in, KeysAndValues* past) const {
    const auto [x, normal] = add_layer_norm(ln_1, in.x, in.branch);
    const auto [y, hidden] = add_layer_norm(ln_2, x, dropout(attn(normal, past)));
    return {y, dropout(mlp(hidden))};
  }

  LayerNorm ln_1;
  Attention attn;
  LayerNorm ln_2;
  FeedForward mlp;
  Dropout dropout;
};

/** Initialises as transformers does. Weights of residual branches are smaller, so that the variance
 *  does not grow with the number of layers. */
void initialise(const Module& model, std::int64_t layers) {
  for (const NamedTensor& p : model.named_parameters()) {
    if (p.tensor.dim() < 2) continue;
    const bool is_added = p.name.ends_with("c_proj.weight");
    init::normal_(p.tensor, 0,
                  is_added ? 0.02 / std::sqrt(2.0 * static_cast<double>(layers)) : 0.02);
  }
}

}  // namespace

/** Everything but the last layer: GPT2Model of transformers. */
struct GPT2LMHeadModel::Transformer : Model<GPT2LMHeadModel::Transformer> {
  explicit Transformer(const GPT2Options& o)
      : wte(add("wte", Embedding{o.vocab_size, o.n_embd})),
        wpe(add("wpe", LearnedPositionalEmbedding{o.n_positions, o.n_embd, {.batch_first = true}})),
        drop(add("drop", Dropout{o.embd_pdrop})),
        h(add("h", ModuleList<Block>{})),
        ln_f(add("ln_f", LayerNorm{o.n_embd})) {
    for (std::int64_t i = 0; i < o.n_layer; ++i) h.push_back(Block{o});
  }

  Tensor forward(const Tensor& tokens, KeyValueCache* cache) const {
    if (cache != nullptr) cache->layers.resize(h.size());
    Residual x{drop(wpe(wte(tokens), cache != nullptr ? cache->seen : 0)), {}};
    for (std::size_t i = 0; i < h.size(); ++i)
      x = h[i](x, cache != nullptr ? &cache->layers[i] : nullptr);
    if (cache != nullptr) cache->seen += tokens.size(1);
    return add_layer_norm(ln_f, x.x, x.branch).norm;
  }

  Embedding wte;
  LearnedPositionalEmbedding wpe;
  Dropout drop;
  ModuleList<Block> h;
  LayerNorm ln_f;
};

GPT2LMHeadModel::GPT2LMHeadModel(const GPT2Options& options)
    : transformer_(
          std::make_shared<Transformer>(add("transformer", Transformer{checked(options)}))),
      lm_head_(add("lm_head", Linear::tied(transformer_->wte.weight(), {.bias = false}))) {
  initialise(*this, options.n_layer);
}

Tensor GPT2LMHeadModel::forward(const Tensor& tokens, KeyValueCache* cache) const {
  if (tokens.dim() != 2)
    fail<ShapeError>(kName,
                     {.what = "wrong shape of tokens", .got = str(tokens), .expected = "[N, T]"});
  return lm_head_((*transformer_)(tokens, cache));
}

GPT2LMHeadModel gpt2(const GPT2Options& options) { return GPT2LMHeadModel(options); }

LoadReport load_gpt2(const std::string& path, const GPT2LMHeadModel& model) {
  const std::string op = str("load_gpt2(", path, ")");
  constexpr std::string_view kPrefix = "transformer.", kHead = "lm_head.weight";
  StateDict values;
  for (const auto& [name, value] : load_state_dict(path)) {
    if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) continue;
    values.set(name.starts_with(kPrefix) || name == kHead ? name : str(kPrefix, name), value);
  }
  const Tensor head = values.find(kHead), embedding = values.find("transformer.wte.weight");
  if (head.defined() && embedding.defined() && !equal(head, embedding))
    fail<ValueError>(op, {.what = "lm_head.weight differs from transformer.wte.weight, whose "
                                  "values it shares in GPT-2"});
  return nn::detail::load_values(op, model, values, {});
}

}  // namespace mezzo::nn::models
