// MultiheadAttention: attention with trained projections and several heads.
// See also: tensor/ops/attention/attention.h (the attention op).
#pragma once

#include "linear.h"
#include "model.h"

namespace mezzo::nn {

/** Options of nn::MultiheadAttention. */
struct MultiheadAttentionOptions {
  double dropout = 0;          // dropout probability of the attention weights while training
  bool bias = true;            // adds biases to the input and output projections
  bool add_bias_kv = false;    // appends one trained key and value
  bool add_zero_attn = false;  // appends one key and value of zeros
  std::int64_t kdim = 0;       // features of the keys; 0: embed_dim
  std::int64_t vdim = 0;       // features of the values; 0: embed_dim
  bool batch_first = false;    // tensors are [N, L, E] instead of [L, N, E]
};

/** Options of one call: masks and the wanted results. A bool mask is true where a query must not
 *  attend to a key. A floating mask is added to the scores. */
struct AttentionCall {
  Tensor key_padding_mask = {};      // [N,S]; [S] for unbatched input
  bool need_weights = true;          // off: returns no weights and never stores all scores
  Tensor attn_mask = {};             // [L,S] or [N heads, L, S]
  bool average_attn_weights = true;  // off: returns the weights of each head
  bool is_causal = false;            // query i attends to keys 0..i only, besides the masks
};
/** Returns the tensors that casts of module arguments apply to. */
template <std::same_as<AttentionCall> T> auto fields(T& c) {
  return std::tie(c.key_padding_mask, c.attn_mask);
}

/** Result of a call of nn::MultiheadAttention. */
struct AttentionResult {
  Tensor output;   // of the query's shape
  Tensor weights;  // undefined unless need_weights is set
};
template <std::same_as<AttentionResult> T> auto fields(T& r) {
  return std::tie(r.output, r.weights);
}

/** Projects queries, keys and values, attends with num_heads heads of embed_dim / num_heads
 *  features each, and projects the concatenated results of the heads.
 *    auto [output, weights] = attention(x, x, x);
 *    const nn::AttentionCall causal{.need_weights = false, .is_causal = true};
 *    Tensor output = attention(x, x, x, causal).output;
 *  Shape: query [L,N,E], key [S,N,kdim], value [S,N,vdim] give output [L,N,E]; with batch_first
 *  [N,L,E]; without a batch [L,E]. Weights [N,L,S], of each head [N,heads,L,S]; without a batch
 *  [L,S], [heads,L,S]. A query that may attend to no key gets weights of 0.
 *  Parameters: in_proj_weight [3E,E] by xavier_uniform_, or with kdim or vdim other than E
 *  q_proj_weight [E,E], k_proj_weight [E,kdim], v_proj_weight [E,vdim]; in_proj_bias [3E] zeros;
 *  bias_k and bias_v [1,1,E] by xavier_normal_ with add_bias_kv; out_proj.weight [E,E] as Linear;
 *  out_proj.bias [E] zeros.
 *  Precision: low; scores and softmax are f32 (f64) inside. With need_weights, the scores are
 *  rounded to the low dtype.
 *  Errors: ValueError for sizes below 1, num_heads that does not divide embed_dim, and a dropout
 *  outside 0..1; calls throw ShapeError, and DtypeError for integer masks.
 *  Source: Vaswani et al., Attention is all you need (2017). */
class MZ_API MultiheadAttention : public Model<MultiheadAttention> {
 public:
  /** Constructs an attention layer over embed_dim features, which num_heads must divide. */
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     const MultiheadAttentionOptions& options = {});

  /** Attends to the keys and values. If query, key and value are the same tensor and kdim and vdim
   *  are embed_dim, their projections are one matrix product. */
  AttentionResult forward(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionCall& call = {}) const;

  /** Returns the joint projection weight; undefined if kdim or vdim differs from embed_dim. */
  const Tensor& in_proj_weight() const { return in_proj_weight_; }
  /** Returns the layer that projects the concatenated results of the heads. */
  const Linear& out_proj() const { return out_proj_; }

 private:
  struct Projected;
  Projected project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  void append_extra_keys(Projected& p) const;
  Tensor heads_of(const Tensor& x) const;
  void check_inputs(const Tensor& query, const Tensor& key, const Tensor& value) const;

  std::int64_t embed_dim_, num_heads_;
  MultiheadAttentionOptions options_;
  Tensor in_proj_weight_, q_proj_weight_, k_proj_weight_, v_proj_weight_, in_proj_bias_, bias_k_,
      bias_v_;
  Linear out_proj_;
};

}  // namespace mezzo::nn
