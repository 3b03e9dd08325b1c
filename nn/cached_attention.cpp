#include "cached_attention.h"

#include <cmath>

#include "../tensor/core/dispatch.h"
#include "../tensor/ops/attention/attention.h"
#include "../tensor/ops/ops.h"
#include "../tensor/ops/require.h"
#include "../tensor/random/generator.h"
#include "../tensor/text/text.h"
#include "arguments.h"
#include "fusion.h"
#include "split_heads.h"

namespace mezzo::nn {

namespace {

constexpr const char* kCausalSelfAttention = "causal_self_attention";

void check(const Tensor& qkv, std::int64_t heads) {
  require_defined(kCausalSelfAttention, qkv);
  detail::require_at_least(1, kCausalSelfAttention, "heads", heads);
  if (qkv.dim() != 3 || qkv.size(2) % (3 * heads) != 0)
    fail<ShapeError>(kCausalSelfAttention,
                     {.what = "queries, keys and values do not divide into the heads",
                      .got = str(qkv, " for ", heads, " heads"),
                      .expected = str("[N, T, a multiple of ", 3 * heads, "]")});
}

/** Appends the keys and values of this call to those of previous steps, and returns all. */
KeysAndValues extend(KeysAndValues& past, const KeysAndValues& now) {
  const bool first = !past.keys.defined();
  past =
      first ? now : KeysAndValues{cat({past.keys, now.keys}, 2), cat({past.values, now.values}, 2)};
  return past;
}

/** Returns which of `keys` steps the last `queries` of them attend to. */
Tensor steps_before(std::int64_t queries, std::int64_t keys, Device device) {
  return tril(ones({queries, keys}, {.dtype = DType::boolean, .device = device}), keys - queries);
}

/** Returns whether the call is computed without copies of its parts, on a GPU. */
bool runs_in_one(const Tensor& qkv, const CausalAttentionOptions& options) {
  return qkv.device().kind != DeviceKind::cpu && qkv.numel() > 0 && is_floating(qkv.dtype()) &&
         options.past == nullptr && options.dropout_p >= 0 && options.dropout_p <= 1 &&
         detail::self_attention_may_fuse();
}

/** Returns the attention of each step to itself and the steps before, in one op. */
Tensor in_one(const Tensor& qkv, std::int64_t heads, double dropout_p) {
  const auto features = static_cast<double>(qkv.size(2) / (3 * heads));
  op::AttentionAttrs attrs{
      .scale = 1 / std::sqrt(features), .is_causal = true, .dropout_p = dropout_p};
  if (dropout_p > 0) attrs.stream = default_generator().next_stream(qkv.device());
  return apply_with<op::SelfAttention>({attrs, heads}, qkv);
}

}  // namespace

Tensor causal_self_attention(const Tensor& qkv, std::int64_t heads,
                             const CausalAttentionOptions& options) {
  check(qkv, heads);
  if (runs_in_one(qkv, options)) return in_one(qkv, heads, options.dropout_p);
  const std::vector<Tensor> all = detail::split_heads(qkv, heads, /*batch_first=*/true);
  KeysAndValues seen{all[1], all[2]};
  if (options.past != nullptr) seen = extend(*options.past, seen);
  const std::int64_t queries = qkv.size(1), keys = seen.keys.size(2);
  AttentionOptions attention{.dropout_p = options.dropout_p, .is_causal = queries == keys};
  // A single step after cached ones attends to all of them, without a mask.
  if (queries != keys && queries > 1) attention.mask = steps_before(queries, keys, qkv.device());
  return scaled_dot_product_attention(all[0], seen.keys, seen.values, attention)
      .transpose(1, 2)
      .flatten(2);
}

}  // namespace mezzo::nn
