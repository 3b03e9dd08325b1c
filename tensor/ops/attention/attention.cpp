// Shape rules, gradients and public functions of the ops in attention.h.
#include "attention.h"

#include <cmath>
#include <limits>

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../random/generator.h"
#include "../../text/text.h"
#include "../composite_gradient.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "../elementwise/selection.h"
#include "../matmul/matmul.h"
#include "../norm/softmax.h"
#include "../random/random.h"
#include "../reduce/reduce.h"
#include "../require.h"
#include "../wide.h"

namespace mezzo::op {

namespace {

constexpr const char* kName = "scaled_dot_product_attention";

Shape lead_of(const Tensor& x) {
  Shape lead = x.shape();
  lead.erase(lead.rank() - 1);
  lead.erase(lead.rank() - 1);
  return lead;
}

Shape with_matrix(Shape batch, std::int64_t rows, std::int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

void require_factors(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const Tensor& x : {k, v})
    if (!x.defined())
      fail<ValueError>(kName,
                       {.what = "an operand is undefined", .expected = "query, key and value"});
  const bool ranks = q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2;
  if (!ranks || q.shape().back() != k.shape().back() || k.size(-2) != v.size(-2))
    fail<ShapeError>(kName, {.what = "query, key and value do not fit",
                             .got = str(q, ", ", k, " and ", v),
                             .expected = "[..., l, e], [..., s, e] and [..., s, f]"});
}

void require_mask(const Tensor& q, const Tensor& mask, const Shape& scores, bool is_causal) {
  if (is_causal)
    fail<ValueError>(kName, {.what = "a mask and is_causal exclude each other",
                             .got = str("mask ", mask),
                             .hint = "pass a mask that is causal itself"});
  if (mask.dtype() != DType::boolean && !is_floating(mask.dtype()))
    fail<DtypeError>(kName, {.what = "the mask is neither bool nor floating",
                             .got = str(mask),
                             .expected = str("bool or ", q.dtype()),
                             .hint = "use mask != 0"});
  if (!is_expandable(mask.shape(), scores))
    fail<ShapeError>(kName, {.what = "the mask does not fit the scores",
                             .got = str("mask ", mask),
                             .expected = str("a shape that broadcasts to ", scores)});
}

}  // namespace

Shape attention_batch(const Tensor& q, const Tensor& k, const Tensor& v) {
  return broadcast_shapes(broadcast_shapes(lead_of(q), lead_of(k), kName), lead_of(v), kName);
}

OutSpecs Attention::infer(Inputs in, const Attrs& attrs) {
  const Tensor &q = in[0], &k = in[1], &v = in[2], &mask = in[3];
  require_factors(q, k, v);
  const Shape batch = attention_batch(q, k, v);
  if (mask.defined())
    require_mask(q, mask, with_matrix(batch, q.size(-2), k.size(-2)), attrs.is_causal);
  const bool floating_mask = mask.defined() && mask.dtype() != DType::boolean;
  const DType dtype = require_one_floating_dtype(kName, floating_mask ? in : in.first(3));
  Shape rows = batch;
  rows.push_back(q.size(-2));
  return {{with_matrix(batch, q.size(-2), v.size(-1)), dtype}, {rows, compute_dtype(dtype)}};
}

OutSpecs AttentionBackward::infer(Inputs in, const Attrs& attrs) {
  const Tensor &q = in[1], &k = in[2], &v = in[3], &mask = in[4];
  const Shape batch = attention_batch(q, k, v);
  // A gradient that is still to be summed over broadcast dimensions keeps the compute dtype, so
  // that it is rounded once.
  const auto like = [](const Tensor& x, const Shape& shape) {
    return OutSpec{shape, x.shape() == shape ? x.dtype() : compute_dtype(x.dtype())};
  };
  const Shape scores = with_matrix(batch, q.size(-2), k.size(-2));
  return {like(q, with_matrix(batch, q.size(-2), q.size(-1))),
          like(k, with_matrix(batch, k.size(-2), k.size(-1))),
          like(v, with_matrix(batch, v.size(-2), v.size(-1))),
          attrs.mask_gradient ? like(mask, scores) : OutSpec{{0}, DType::f32}};
}

OutSpecs SelfAttention::infer(Inputs in, const Attrs& attrs) {
  const Tensor& qkv = in[0];
  return {{{qkv.size(0), qkv.size(1), qkv.size(2) / 3}, qkv.dtype()},
          {{qkv.size(0), attrs.heads, qkv.size(1)}, compute_dtype(qkv.dtype())}};
}

OutSpecs SelfAttentionBackward::infer(Inputs in, const Attrs&) {
  return {{in[1].shape(), in[1].dtype()}};
}

Tensor heads_of_rows(const Tensor& x, std::int64_t heads) {
  const std::int64_t columns = x.size(2) / heads;
  const Strides& s = x.strides();
  return alias(x, {x.size(0), heads, x.size(1), columns}, {s[0], columns * s[2], s[1], s[2]},
               x.impl()->offset);
}

std::array<Tensor, 3> heads_of_projection(const Tensor& qkv, std::int64_t heads) {
  const std::int64_t width = qkv.size(2) / 3;
  const auto part = [&](std::int64_t i) {
    const Tensor rows = alias(qkv, {qkv.size(0), qkv.size(1), width}, qkv.strides(),
                              qkv.impl()->offset + i * width * qkv.strides()[2]);
    return heads_of_rows(rows, heads);
  };
  return {part(0), part(1), part(2)};
}

std::span<OpInfo* const> attention_ops() { return infos_of(AttentionOps{}); }

// The gradient of attention.

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
