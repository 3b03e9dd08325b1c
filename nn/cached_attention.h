// Causal self-attention of language models, with a cache of keys and values for generating text.
// See also: tensor/ops/attention/attention.h (attention of given queries, keys and values).
#pragma once

#include <cstdint>
#include <vector>

#include "../tensor/core/tensor.h"

namespace mezzo::nn {

/** Keys and values of one layer for the previous steps, each [N, heads, seen, E / heads];
 *  undefined at first. */
struct KeysAndValues {
  /** Keys of the steps so far. */
  Tensor keys, values;  // values of the same steps
};

/** Keys and values of all layers of a language model. With the cache, each further step is computed
 *  without recomputing the previous ones. */
struct KeyValueCache {
  std::vector<KeysAndValues> layers;  // in order
  std::int64_t seen = 0;              // number of cached steps
};

/** Options of causal_self_attention. */
struct CausalAttentionOptions {
  double dropout_p = 0;           // dropout of the probabilities; pass 0 outside training
  KeysAndValues* past = nullptr;  // previous steps; the call appends its own
};

/** Returns the result of self-attention in which each step attends to itself and the steps before.
 *  Shape: qkv [N, T, 3 E], queries, keys and values in this order, gives [N, T, E]. E is divided
 *  into `heads` heads.
 *  Precision, gradient: as scaled_dot_product_attention.
 *  Errors: ShapeError unless qkv has 3 dimensions and 3 * heads divides the last; ValueError for
 *  heads < 1; those of scaled_dot_product_attention. */
MZ_API Tensor causal_self_attention(const Tensor& qkv, std::int64_t heads,
                                    const CausalAttentionOptions& options = {});

}  // namespace mezzo::nn
