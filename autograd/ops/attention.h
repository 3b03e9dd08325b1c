// Attention.
// Sees: tensor.
// Read next: ../../tensor/ops/attention.h.
#pragma once

#include <optional>

#include "../../tensor/tensor.h"

namespace mezzo {

struct AttentionOptions {
  Tensor mask = {};      // bool: true = may be seen; floating: added to the scores; broadcasts to [..., l, s]
  double dropout_p = 0;  // of the probabilities, whenever it is not 0: pass 0 outside training
  bool is_causal = false;            // query i sees keys 0..i, whatever the lengths
  std::optional<double> scale = {};  // left out: 1 / sqrt(e)
  bool enable_gqa = false;           // heads of the query share those of key and value
};

/** softmax(scale q k^T + mask) v over the last two dimensions; the others are a batch and broadcast. A query that may see no key gives 0.
 *  Shape: query [..., l, e], key [..., s, e], value [..., s, f] give [..., l, f].
 *  With enable_gqa query [..., h, l, e], key [..., k, s, e] and value [..., k, s, f], where h is a
 *  multiple of k: head i of the query meets head i / (h / k) of key and value, as in PyTorch.
 *  Precision: low; scores and softmax in f32 (f64) inside, one rounding. Scores are never held as a whole, backward included. What cuDNN serves on a GPU
 *  rounds probabilities too, and holds up to 256 MiB of gradients of scores: see enable_cudnn_sdp.
 *  Gradient: of q, k, v and a floating mask, 0 for queries that see no key; dropout's mask is the forward's.
 *  Errors: ShapeError, DtypeError; ValueError for mask together with is_causal, and unless 0 <= dropout_p <= 1.
 *  Source: Vaswani et al., Attention is all you need (2017). */
MZ_API Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const AttentionOptions& options = {});

}  // namespace mezzo
