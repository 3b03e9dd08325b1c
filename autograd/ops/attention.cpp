#include "attention.h"

#include <cmath>

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/attention.h"
#include "../../tensor/random/generator.h"
#include "../../tensor/text/text.h"

namespace mezzo {

namespace {

constexpr const char* kName = "scaled_dot_product_attention";

/** Returns x [..., h, l, e] as [..., h / group, group, l, e]. */
Tensor in_groups(const Tensor& x, std::int64_t group) {
  return x.unflatten(-3, {x.size(-3) / group, group});
}

/** Returns the number of query heads per head of key and value. Errors: ShapeError where the
 *  numbers of heads do not fit. */
std::int64_t group_size(const Tensor& query, const Tensor& key, const Tensor& value) {
  bool fits = true;
  for (const Tensor& x : {query, key, value}) fits = fits && x.defined() && x.dim() >= 3;
  if (fits) {
    const std::int64_t heads = query.size(-3), shared = key.size(-3);
    if (shared > 0 && heads % shared == 0 && value.size(-3) == shared) return heads / shared;
  }
  fail<ShapeError>(
      kName, {.what = "the heads do not form groups",
              .got = str(query, ", ", key, " and ", value),
              .expected = "[..., h, l, e], [..., k, s, e] and [..., k, s, f], h a multiple of k",
              .hint = "omit enable_gqa if all have the same number of heads"});
}

/** Returns a mask of scores [..., h, l, s] as a mask of scores [..., h / group, group, l, s]. */
Tensor mask_in_groups(const Tensor& mask, const Tensor& query, std::int64_t group) {
  if (!mask.defined() || mask.dim() < 3) return mask;
  if (mask.size(-3) == 1) return mask.unsqueeze(-3);
  if (mask.size(-3) != query.size(-3))
    fail<ShapeError>(kName, {.what = "the mask does not fit the scores",
                             .got = str("mask ", mask, " for query ", query),
                             .expected = str(query.size(-3), " heads or 1")});
  return in_groups(mask, group);
}

/** Computes grouped-query attention: each group of query heads is a batch, to which the head of key
 *  and value is broadcast. */
Tensor grouped_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                         AttentionOptions options) {
  const std::int64_t group = group_size(query, key, value);
  options.enable_gqa = false;
  options.mask = mask_in_groups(options.mask, query, group);
  const Tensor y = scaled_dot_product_attention(in_groups(query, group), key.unsqueeze(-3),
                                                value.unsqueeze(-3), options);
  return y.flatten(-4, -3);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) {
  if (options.enable_gqa) return grouped_attention(query, key, value, options);
  const double p = options.dropout_p;
  if (!(p >= 0 && p <= 1))
    fail<ValueError>(kName, {.what = "bad dropout_p", .got = str(p), .expected = "0 <= p <= 1"});
  op::AttentionAttrs attrs{.is_causal = options.is_causal, .dropout_p = p};
  const bool has_features = query.defined() && query.dim() > 0 && query.shape().back() > 0;
  attrs.scale = options.scale.value_or(
      has_features ? 1 / std::sqrt(static_cast<double>(query.shape().back())) : 1.0);
  if (p > 0) attrs.stream = default_generator().next_stream(query.defined() ? query.device() : cpu);
  return apply_with<op::Attention>(attrs, query, key, value, options.mask);
}

}  // namespace mezzo
