#include "attention.h"

#include <cmath>

#include "../../tensor/dispatch.h"
#include "../../tensor/generator.h"
#include "../../tensor/ops/attention.h"
#include "../../tensor/text.h"

namespace mezzo {

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) {
  const double p = options.dropout_p;
  if (!(p >= 0 && p <= 1))
    fail<ValueError>("scaled_dot_product_attention",
                     {.what = "bad dropout_p", .got = str(p), .expected = "0 <= p <= 1"});
  op::AttentionAttrs attrs{.is_causal = options.is_causal, .dropout_p = p};
  const bool has_features = query.defined() && query.dim() > 0 && query.shape().back() > 0;
  attrs.scale =
      options.scale.value_or(has_features ? 1 / std::sqrt(static_cast<double>(query.shape().back())) : 1.0);
  if (p > 0) attrs.stream = default_generator().next_stream(query.defined() ? query.device() : cpu);
  return apply_with<op::Attention>(attrs, query, key, value, options.mask);
}

}  // namespace mezzo
