// Scaled dot product attention. ops.h explains the notation and the precision tags.
#pragma once

#include <optional>

#include "../../tensor/core/tensor.h"

namespace mezzo {

/** Options of scaled_dot_product_attention. */
struct AttentionOptions {
  /** bool: true where the query may attend to the key. Floating-point: added to the scores. It
   *  broadcasts to [..., l, s]. */
  Tensor mask = {};
  double dropout_p = 0;              // dropout of the probabilities; pass 0 outside training
  bool is_causal = false;            // query i attends to keys 0..i, whatever the lengths
  std::optional<double> scale = {};  // factor of the scores; not given: 1 / sqrt(e)
  bool enable_gqa = false;           // groups of query heads share a head of key and value
};

/** Returns softmax(scale q k^T + mask) v over the last two dimensions; the others are a batch and
 *  broadcast. A query without an unmasked key gives 0.
 *  Shape: query [..., l, e], key [..., s, e], value [..., s, f] give [..., l, f]. With enable_gqa
 *  query [..., h, l, e], key [..., k, s, e] and value [..., k, s, f], where h is a multiple of k:
 *  head i of the query uses head i / (h / k) of key and value, as in PyTorch.
 *  Precision: low; scores and softmax are computed in f32 (f64), one rounding. The whole matrix of
 *  scores is never stored, not in the backward pass either. Calls that cuDNN handles on a GPU round
 *  the probabilities too, and store up to 256 MiB each for gradients of scores, for a mask in f32,
 *  and for a mask of dropout; enable_cudnn_sdp(false) turns them off.
 *  Non-finite: nan or infinity in a key or value that a mask hides can make results nan.
 *  Gradient: for query, key, value and a floating-point mask; 0 for queries without an unmasked
 *  key. The backward pass uses the dropout mask of the forward pass.
 *  Errors: ShapeError, DtypeError; ValueError for a mask together with is_causal, and unless 0 <=
 *  dropout_p <= 1.
 *  Source: Vaswani et al., Attention is all you need (2017). */
MZ_API Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key,
                                           const Tensor& value,
                                           const AttentionOptions& options = {});

}  // namespace mezzo
