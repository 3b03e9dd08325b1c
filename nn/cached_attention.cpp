#include "cached_attention.h"

#include <algorithm>

#include "../autograd/custom_function.h"
#include "../autograd/ops.h"
#include "../tensor/ops/require.h"
#include "../tensor/text/text.h"
#include "arguments.h"

namespace mezzo::nn {

namespace {

constexpr const char* kName = "causal_self_attention";

void check(const Tensor& qkv, std::int64_t heads) {
  require_defined(kName, qkv);
  detail::require_at_least(1, kName, "heads", heads);
  if (qkv.dim() != 3 || qkv.size(2) % (3 * heads) != 0)
    fail<ShapeError>(kName, {.what = "queries, keys and values do not divide into the heads",
                             .got = str(qkv, " for ", heads, " heads"),
                             .expected = str("[N, T, a multiple of ", 3 * heads, "]")});
}

/** Divides a projection into queries, keys and values of the heads, each [N, heads, T, E / heads].
 *  The gradient is written once; the gradients of three views would be added up. */
struct SplitHeads {
  static constexpr const char* name = "split_heads";

  static std::vector<Tensor> forward(FunctionContext&, const Tensor& qkv, std::int64_t heads) {
    const Tensor parts = qkv.unflatten(-1, {3, heads, qkv.size(2) / (3 * heads)});
    std::vector<Tensor> out;
    for (int i = 0; i < 3; ++i) out.push_back(parts.select(2, i).transpose(1, 2));
    return out;
  }

  static Grads backward(FunctionContext&, const Grads& grads) {
    const auto defined =
        std::find_if(grads.begin(), grads.end(), [](const Tensor& g) { return g.defined(); });
    const Shape& shape = defined->shape();
    const Tensor whole = empty({shape[0], shape[2], 3, shape[1], shape[3]},
                               {.dtype = defined->dtype(), .device = defined->device()});
    for (int i = 0; i < 3; ++i) {
      const Tensor part = whole.select(2, i).transpose(1, 2);
      const Tensor& g = grads[static_cast<std::size_t>(i)];
      g.defined() ? part.copy_(g) : part.zero_();
    }
    return {whole.flatten(2)};
  }
};

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

}  // namespace

Tensor causal_self_attention(const Tensor& qkv, std::int64_t heads,
                             const CausalAttentionOptions& options) {
  check(qkv, heads);
  const std::vector<Tensor> all = custom_function<SplitHeads>(qkv, heads);
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
