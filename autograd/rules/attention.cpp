// The gradient of attention.
#include "../../tensor/ops/attention.h"

#include <limits>

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/random.h"
#include "../grad_mode.h"
#include "../ops/create.h"
#include "../ops/matmul.h"
#include "../ops/operators.h"
#include "../ops/reduce.h"
#include "../ops/selection.h"
#include "../ops/softmax.h"
#include "composite_gradient.h"
#include "wide.h"

namespace mezzo::op {

namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

/** Returns a mask that is true where query l attends to key s. */
Tensor causal_mask(std::int64_t queries, std::int64_t keys, Device device) {
  const Tensor l = arange(static_cast<double>(queries), {.dtype = DType::i64, .device = device}),
               s = arange(static_cast<double>(keys), {.dtype = DType::i64, .device = device});
  return l.unsqueeze(1) >= s;
}

Tensor masked(const Tensor& scores, const Tensor& mask, const AttentionAttrs& attrs) {
  if (attrs.is_causal)
    return where(causal_mask(scores.size(-2), scores.size(-1), scores.device()), scores,
                 operand(kMasked));
  if (!mask.defined()) return scores;
  return mask.dtype() == DType::boolean ? where(mask, scores, operand(kMasked))
                                        : scores + wide(mask);
}

/** Computes attention in public ops. The operands are q, k, v, mask. */
std::vector<Tensor> attention(const std::vector<Tensor>& in, const AttentionAttrs& attrs) {
  const Tensor q = wide(in[0]) * attrs.scale, k = wide(in[1]), v = wide(in[2]);
  const Tensor scores = masked(matmul(q, k.transpose(-2, -1)), in[3], attrs);
  // A query without an unmasked key gives 0 and has no gradient.
  const Tensor alive = amax(scores.detach(), -1, {.keepdim = true}) != kMasked;
  Tensor p = where(alive, softmax(where(alive, scores, operand(0.0)), -1), operand(0.0));
  if (attrs.dropout_p > 0) p = apply_with<Dropout>({attrs.dropout_p, attrs.stream}, p);
  return {matmul(p, v)};
}

}  // namespace

Grads Attention::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Attention>();
  if (grad_enabled()) {
    const bool empty = saved.shape(1)[saved.shape(1).rank() - 2] == 0;
    if (empty) return {};
    return gradients_of_composite(
        saved, gy, [&](const std::vector<Tensor>& in) { return attention(in, attrs); });
  }
  const bool mask_gradient = saved.wants(3);
  auto [dq, dk, dv, dmask] = apply_all<AttentionBackward>(
      {attrs, mask_gradient}, gy[0], saved.inputs[0], saved.inputs[1], saved.inputs[2],
      saved.inputs[3], saved.outputs[0], saved.outputs[1]);
  if (!mask_gradient) dmask = Tensor{};
  return {std::move(dq), std::move(dk), std::move(dv), std::move(dmask)};
}

Grads SelfAttention::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<SelfAttention>();
  if (!grad_enabled())
    return {apply_with<SelfAttentionBackward>(attrs, gy[0], saved.inputs[0], saved.outputs[0],
                                              saved.outputs[1])};
  return gradients_of_composite(saved, gy, [&](const std::vector<Tensor>& in) {
    const Tensor parts = in[0].unflatten(-1, {3, attrs.heads, in[0].size(-1) / (3 * attrs.heads)});
    const auto heads = [&](std::int64_t i) { return parts.select(2, i).transpose(1, 2); };
    const Tensor y = attention({heads(0), heads(1), heads(2), {}}, attrs.attention)[0];
    return std::vector<Tensor>{y.transpose(1, 2).flatten(2)};
  });
}

}  // namespace mezzo::op
