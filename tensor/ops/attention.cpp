// Shape rules of attention.
#include "attention.h"

#include "../core/registry.h"
#include "../text/text.h"
#include "require.h"

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

}  // namespace mezzo::op
