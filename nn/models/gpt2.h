// GPT-2 with the parameter names of Hugging Face's transformers, so that its weights load.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "../../tensor/core/pointers.h"
#include "../cached_attention.h"
#include "../linear.h"
#include "../state_dict.h"

namespace mezzo::nn::models {

/** Options of GPT-2, with the names of transformers' GPT2Config. The defaults are those of the
 *  smallest GPT-2. */
struct GPT2Options {
  std::int64_t vocab_size = 50257;  // number of different tokens
  std::int64_t n_positions = 1024;  // maximum number of tokens
  std::int64_t n_embd = 768;        // features of a token
  std::int64_t n_layer = 12;        // number of blocks
  std::int64_t n_head = 12;         // attention heads; must divide n_embd
  double embd_pdrop = 0.1;          // dropout probability of the embeddings while training
  double attn_pdrop = 0.1;          // dropout probability of attention weights while training
  double resid_pdrop = 0.1;         // dropout probability of residual branches while training
};

/** Decoder-only transformer that predicts the next token.
 *  Shape: tokens i64 or i32 [N, T] to logits [N, T, vocab_size]. Parameters and their names are
 *  those of transformers' GPT2LMHeadModel: transformer.wte, transformer.wpe, transformer.h.0, ...,
 *  transformer.ln_f, and lm_head, which shares the weight of wte. The weights c_attn, c_proj and
 *  c_fc have the shape [in, out] there.
 *  Precision: that of its layers. Initialisation: as transformers; N(0, 0.02^2), and
 *  0.02 / sqrt(2 n_layer) for c_proj.
 *  Errors: ValueError for sizes below 1 and an n_head that does not divide n_embd; calls throw
 *  IndexError for other tokens and beyond n_positions, ShapeError.
 *  Source: Radford et al., Language models are unsupervised multitask learners, 2019. */
class MZ_API GPT2LMHeadModel : public Model<GPT2LMHeadModel> {
 public:
  /** Constructs with random weights. */
  explicit GPT2LMHeadModel(const GPT2Options& options = {});
  /** Returns the logits. With a cache, the tokens continue the cached ones. */
  Tensor forward(const Tensor& tokens, KeyValueCache* cache = nullptr) const;

 private:
  struct Transformer;

  Shared<const Transformer> transformer_;
  Linear lm_head_;
};

/** Returns the smallest GPT-2, with 124 million weights. */
MZ_API GPT2LMHeadModel gpt2(const GPT2Options& options = {});

/** Reads weights that transformers saved for a GPT-2, a safetensors file or the index of several.
 *  The beginning "transformer." of names may be missing, as in the files of the original models,
 *  and causal masks ("attn.bias", "attn.masked_bias"), which old versions saved, are ignored.
 *  Errors: those of load(); ValueError if lm_head.weight is stored and differs from wte.weight. */
MZ_API LoadReport load_gpt2(const std::string& path, const GPT2LMHeadModel& model);

}  // namespace mezzo::nn::models
