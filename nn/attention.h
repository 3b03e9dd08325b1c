// MultiheadAttention: attention with trained projections, several heads side by side.
// Sees: model.h.
// Read next: ../autograd/ops/attention.h (one head), attention.cpp, transformer.h.
#pragma once

#include "linear.h"
#include "model.h"

namespace mezzo::nn {

struct MultiheadAttentionOptions {
  double dropout = 0;  // while training, of the attention weights
  bool bias = true;
  bool add_bias_kv = false;    // one more key and value, trained
  bool add_zero_attn = false;  // one more key and value, zeros
  std::int64_t kdim = 0;       // features of the keys; 0: embed_dim
  std::int64_t vdim = 0;       // features of the values; 0: embed_dim
  bool batch_first = false;    // tensors are [N, L, E] instead of [L, N, E]
};

/** Which keys a query may not see, and what is wanted back. Masks: bool, true = may not be seen; or floating, added to the scores. */
struct AttentionCall {
  Tensor key_padding_mask = {};      // [N,S], for one sequence alone [S]
  bool need_weights = true;          // off: no weights, and scores are never held as a whole
  Tensor attn_mask = {};             // [L,S] or [N heads, L, S]
  bool average_attn_weights = true;  // off: the weights of each head
  bool is_causal = false;            // query i sees keys 0..i only, in addition to the masks
};
template <std::same_as<AttentionCall> T> auto fields(T& c) {
  return std::tie(c.key_padding_mask, c.attn_mask);
}

struct AttentionResult {
  Tensor output;
  Tensor weights;  // undefined when they are not wanted
};
template <std::same_as<AttentionResult> T> auto fields(T& r) { return std::tie(r.output, r.weights); }

/** Projects queries, keys and values, attends in num_heads parts of embed_dim / num_heads features, projects what the heads found.
 *    auto [output, weights] = attention(x, x, x);
 *    Tensor output = attention(x, x, x, nn::AttentionCall{.need_weights = false, .is_causal = true}).output;
 *  Shape: query [L,N,E], key [S,N,kdim], value [S,N,vdim] give output [L,N,E]; with batch_first [N,L,E]; without a batch [L,E]. Weights [N,L,S],
 *  of each head [N,heads,L,S]; without a batch [L,S], [heads,L,S]. A query that may see no key gets weights of 0.
 *  Parameters: in_proj_weight [3E,E] (with kdim or vdim other than E q_proj_weight [E,E], k_proj_weight [E,kdim], v_proj_weight [E,vdim]) by
 *  xavier_uniform_, in_proj_bias [3E] zeros, bias_k and bias_v [1,1,E] by xavier_normal_ where add_bias_kv, out_proj.weight [E,E] as Linear,
 *  out_proj.bias [E] zeros.
 *  Precision: low; scores and softmax in f32 (f64) inside, but for the scores where weights are wanted: those are rounded.
 *  Errors: ValueError for sizes below 1, heads that do not divide embed_dim, a dropout outside 0..1; when called: ShapeError, DtypeError for masks
 *  of integers.   Source: Vaswani et al., Attention is all you need (2017). */
class MZ_API MultiheadAttention : public Model<MultiheadAttention> {
 public:
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     const MultiheadAttentionOptions& options = {});

  AttentionResult forward(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionCall& call = {}) const;

  /** Undefined where there are three. */
  const Tensor& in_proj_weight() const { return in_proj_weight_; }
  const Linear& out_proj() const { return out_proj_; }

 private:
  struct Projected;
  Projected project(const Tensor& query, const Tensor& key, const Tensor& value) const;
  void append_extra_keys(Projected& p) const;
  Tensor heads_of(const Tensor& x) const;
  void check_inputs(const Tensor& query, const Tensor& key, const Tensor& value) const;

  std::int64_t embed_dim_, num_heads_;
  MultiheadAttentionOptions options_;
  Tensor in_proj_weight_, q_proj_weight_, k_proj_weight_, v_proj_weight_, in_proj_bias_, bias_k_, bias_v_;
  Linear out_proj_;
};

}  // namespace mezzo::nn
