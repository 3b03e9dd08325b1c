#include "attention.h"

#include <cmath>
#include <limits>

#include "../tensor/ops/ops.h"
#include "../tensor/ops/require.h"
#include "../tensor/text/text.h"
#include "arguments.h"
#include "init.h"
#include "split_heads.h"

namespace mezzo::nn {

namespace {

constexpr const char* kName = "MultiheadAttention";

/** The combined masks of a call, broadcastable to the scores [N, heads, L, S]. At most one of the
 *  two tensors is defined. */
struct ScoreMask {
  Tensor allowed;  // bool
  Tensor added;    // floating

  bool empty() const { return !allowed.defined() && !added.defined(); }
};

struct ScoreSizes {
  std::int64_t batch, heads, queries, keys;
  bool batched;
};

void require_mask(const char* what, const Tensor& mask, const std::vector<Shape>& shapes) {
  if (mask.dtype() != DType::boolean && !is_floating(mask.dtype()))
    fail<DtypeError>(kName, {.what = str(what, " is neither bool nor floating"), .got = str(mask)});
  std::string expected;
  for (const Shape& shape : shapes) {
    if (mask.shape() == shape) return;
    expected += (expected.empty() ? "" : " or ") + str(shape);
  }
  fail<ShapeError>(kName,
                   {.what = str(what, " does not fit"), .got = str(mask), .expected = expected});
}

/** Returns a mask to be added to scores: 0 where allowed, -inf elsewhere. */
Tensor as_added(const Tensor& allowed, DType dtype) {
  const Tensor zeros = mezzo::zeros(allowed.shape(), {.dtype = dtype, .device = allowed.device()});
  return masked_fill(zeros, logical_not(allowed), -std::numeric_limits<double>::infinity());
}

/** Combines `mask` into `all`. */
void restrict_by(ScoreMask& all, const Tensor& mask, DType dtype) {
  if (is_floating(mask.dtype())) {
    const Tensor added = mask.to(dtype);
    all.added = all.allowed.defined() ? as_added(all.allowed, dtype) + added
                : all.added.defined() ? all.added + added
                                      : added;
    all.allowed = {};
  } else {
    const Tensor allowed = logical_not(mask);
    if (all.added.defined())
      all.added = all.added + as_added(allowed, dtype);
    else
      all.allowed = all.allowed.defined() ? logical_and(all.allowed, allowed) : allowed;
  }
}

/** Returns the combined masks of a call. `triangle` materialises the causal mask even if it is the
 *  only one. */
ScoreMask mask_of(const AttentionCall& call, const ScoreSizes& s, DType dtype, Device device,
                  bool triangle) {
  ScoreMask all;
  if (call.attn_mask.defined()) {
    const Shape single{s.queries, s.keys}, each{s.batch * s.heads, s.queries, s.keys};
    require_mask("attn_mask", call.attn_mask, {single, each});
    restrict_by(all,
                call.attn_mask.dim() == 2
                    ? call.attn_mask
                    : call.attn_mask.view({s.batch, s.heads, s.queries, s.keys}),
                dtype);
  }
  if (call.key_padding_mask.defined()) {
    require_mask("key_padding_mask", call.key_padding_mask,
                 {s.batched ? Shape{s.batch, s.keys} : Shape{s.keys}});
    restrict_by(all, call.key_padding_mask.view({s.batch, 1, 1, s.keys}), dtype);
  }
  if (call.is_causal && (triangle || !all.empty())) {
    const Tensor ones =
        mezzo::ones({s.queries, s.keys}, {.dtype = DType::boolean, .device = device});
    restrict_by(all, triu(ones, 1), dtype);
  }
  return all;
}

/** Extends the mask by `count` keys that every query attends to. */
void append_seen_keys(ScoreMask& mask, std::int64_t count) {
  for (Tensor* x : {&mask.allowed, &mask.added})
    if (x->defined()) *x = pad(*x, {0, count}, {.value = x == &mask.allowed ? 1.0 : 0.0});
}

/** Returns softmax(q k^T / sqrt(d) + mask), with 0 for masked keys, also in fully masked rows. */
Tensor explicit_weights(const Tensor& q, const Tensor& k, const ScoreMask& mask) {
  constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
  const double scale = 1 / std::sqrt(static_cast<double>(q.shape().back()));
  Tensor scores = matmul(q * scale, k.transpose(-2, -1));
  if (mask.empty()) return softmax(scores, -1);
  if (mask.added.defined()) scores = scores + mask.added;
  const Tensor hidden =
      mask.added.defined() ? eq(mask.added.detach(), kMinusInfinity) : logical_not(mask.allowed);
  return masked_fill(softmax(masked_fill(scores, hidden, kMinusInfinity), -1), hidden, 0.0);
}

}  // namespace

/** Projected queries, keys and values, [L, N, E] or [N, L, E]; of the heads [N, heads, L, E /
 *  heads]. */
struct MultiheadAttention::Projected {
  Tensor q, k, v;
};

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       const MultiheadAttentionOptions& options)
    : embed_dim_(embed_dim),
      num_heads_(num_heads),
      options_(options),
      out_proj_((detail::require_at_least(1, kName, "embed_dim", embed_dim), embed_dim), embed_dim,
                {.bias = options.bias}) {
  detail::require_at_least(1, kName, "num_heads", num_heads);
  detail::require_at_least(0, kName, "kdim", options.kdim);
  detail::require_at_least(0, kName, "vdim", options.vdim);
  detail::require_probability(kName, "dropout", options.dropout);
  if (embed_dim % num_heads != 0)
    fail<ValueError>(kName, {.what = "num_heads does not divide embed_dim",
                             .got = str(num_heads, " heads for ", embed_dim, " features")});
  if (options_.kdim == 0) options_.kdim = embed_dim;
  if (options_.vdim == 0) options_.vdim = embed_dim;
  const auto weight = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return init::xavier_uniform_(add_parameter(name, empty({rows, columns})));
  };
  if (options_.kdim == embed_dim && options_.vdim == embed_dim) {
    in_proj_weight_ = weight("in_proj_weight", 3 * embed_dim, embed_dim);
  } else {
    q_proj_weight_ = weight("q_proj_weight", embed_dim, embed_dim);
    k_proj_weight_ = weight("k_proj_weight", embed_dim, options_.kdim);
    v_proj_weight_ = weight("v_proj_weight", embed_dim, options_.vdim);
  }
  if (options.bias) {
    in_proj_bias_ = add_parameter("in_proj_bias", zeros({3 * embed_dim}));
    init::zeros_(out_proj_.bias());
  }
  if (options.add_bias_kv) {
    bias_k_ = init::xavier_normal_(add_parameter("bias_k", empty({1, 1, embed_dim})));
    bias_v_ = init::xavier_normal_(add_parameter("bias_v", empty({1, 1, embed_dim})));
  }
  add("out_proj", out_proj_);
  set_summary(str(embed_dim, ", ", num_heads,
                  options.dropout == 0 ? "" : str(", dropout ", options.dropout),
                  options.batch_first ? ", batch_first" : ""));
}

void MultiheadAttention::check_inputs(const Tensor& query, const Tensor& key,
                                      const Tensor& value) const {
  for (const Tensor* x : {&query, &key, &value}) require_defined(kName, *x);
  const std::string got = str("query ", str(query), ", key ", str(key), ", value ", str(value));
  const int rank = query.dim();
  if ((rank != 2 && rank != 3) || key.dim() != rank || value.dim() != rank)
    fail<ShapeError>(kName,
                     {.what = "query, key and value need 2 dimensions each or 3 each", .got = got});
  if (query.size(-1) != embed_dim_ || key.size(-1) != options_.kdim ||
      value.size(-1) != options_.vdim)
    fail<ShapeError>(kName,
                     {.what = "wrong number of features",
                      .got = got,
                      .expected = str(embed_dim_, ", ", options_.kdim, " and ", options_.vdim)});
  const int batch_dim = options_.batch_first ? 0 : 1, step_dim = rank == 2 ? 0 : 1 - batch_dim;
  const bool same_batch = rank == 2 || (query.size(batch_dim) == key.size(batch_dim) &&
                                        query.size(batch_dim) == value.size(batch_dim));
  if (!same_batch || key.size(step_dim) != value.size(step_dim))
    fail<ShapeError>(kName,
                     {.what = "batch sizes, or numbers of keys and values, differ", .got = got});
}

MultiheadAttention::Projected MultiheadAttention::project(const Tensor& query, const Tensor& key,
                                                          const Tensor& value) const {
  const std::int64_t e = embed_dim_;
  const auto rows = [&](const Tensor& x, std::int64_t first, std::int64_t count) {
    return x.defined() ? x.narrow(0, first * e, count * e) : x;
  };
  if (!in_proj_weight_.defined())
    return {linear(query, q_proj_weight_, rows(in_proj_bias_, 0, 1)),
            linear(key, k_proj_weight_, rows(in_proj_bias_, 1, 1)),
            linear(value, v_proj_weight_, rows(in_proj_bias_, 2, 1))};
  // Projections of the same tensor share one matrix product.
  const auto projected = [&](const Tensor& x, std::int64_t first, std::int64_t count) {
    if (count == 3) return linear(x, in_proj_weight_, in_proj_bias_).chunk(3, -1);
    return linear(x, rows(in_proj_weight_, first, count), rows(in_proj_bias_, first, count))
        .chunk(count, -1);
  };
  if (query.is_same(key) && key.is_same(value)) {
    const std::vector<Tensor> all = projected(query, 0, 3);
    return {all[0], all[1], all[2]};
  }
  if (key.is_same(value)) {
    const std::vector<Tensor> both = projected(key, 1, 2);
    return {projected(query, 0, 1)[0], both[0], both[1]};
  }
  return {projected(query, 0, 1)[0], projected(key, 1, 1)[0], projected(value, 2, 1)[0]};
}

void MultiheadAttention::append_extra_keys(Projected& p) const {
  const int step_dim = options_.batch_first ? 1 : 0;
  Shape shape = p.k.shape();
  shape[step_dim] = 1;
  const auto append = [&](Tensor& x, const Tensor& row) {
    x = cat({x, row.to(x.dtype()).expand(shape)}, step_dim);
  };
  if (bias_k_.defined()) append(p.k, bias_k_), append(p.v, bias_v_);
  if (options_.add_zero_attn) {
    const Tensor none = zeros(shape, {.dtype = p.k.dtype(), .device = p.k.device()});
    append(p.k, none), append(p.v, none);
  }
}

/** Returns a view of [L, N, E] or [N, L, E] as [N, heads, L, E / heads]. */
Tensor MultiheadAttention::heads_of(const Tensor& x) const {
  return detail::with_heads_first(x.unflatten(-1, {num_heads_, embed_dim_ / num_heads_}),
                                  options_.batch_first);
}

AttentionResult MultiheadAttention::forward(const Tensor& query, const Tensor& key,
                                            const Tensor& value, const AttentionCall& call) const {
  check_inputs(query, key, value);
  const int batch_dim = options_.batch_first ? 0 : 1;
  const bool batched = query.dim() == 3;
  const auto with_batch = [&](const Tensor& x) { return batched ? x : x.unsqueeze(batch_dim); };
  const std::int64_t extra = (bias_k_.defined() ? 1 : 0) + (options_.add_zero_attn ? 1 : 0);
  const Tensor queries = with_batch(query), keys = with_batch(key);
  const ScoreSizes sizes{queries.size(batch_dim), num_heads_, queries.size(1 - batch_dim),
                         keys.size(1 - batch_dim), batched};
  // Self-attention has one projection, which is divided into heads at once.
  const bool shared = in_proj_weight_.defined() && batched && extra == 0 && query.is_same(key) &&
                      key.is_same(value);
  Projected p;
  if (shared) {
    const std::vector<Tensor> all = detail::split_heads(
        linear(query, in_proj_weight_, in_proj_bias_), num_heads_, options_.batch_first);
    p = {all[0], all[1], all[2]};
  } else {
    p = project(query, key, value);
    p = {with_batch(p.q), with_batch(p.k), with_batch(p.v)};
  }
  // The causal mask of the fused op covers all keys, so it cannot be used with extra keys.
  ScoreMask mask = mask_of(call, sizes, p.q.dtype(), query.device(),
                           /*triangle=*/call.need_weights || extra > 0);
  if (extra > 0) {
    append_extra_keys(p);
    append_seen_keys(mask, extra);
  }
  if (!shared) p = {heads_of(p.q), heads_of(p.k), heads_of(p.v)};
  const double dropout_p = training() ? options_.dropout : 0;
  AttentionResult result;
  Tensor found;
  if (!call.need_weights) {
    found = scaled_dot_product_attention(p.q, p.k, p.v,
                                         {.mask = mask.added.defined() ? mask.added : mask.allowed,
                                          .dropout_p = dropout_p,
                                          .is_causal = call.is_causal && mask.empty()});
  } else {
    result.weights =
        dropout(explicit_weights(p.q, p.k, mask), {.p = dropout_p, .training = training()});
    found = matmul(result.weights, p.v);
    if (call.average_attn_weights) result.weights = mean(result.weights, 1);
    if (!batched) result.weights = result.weights.squeeze(0);
  }
  const Tensor joined =
      (options_.batch_first ? found.permute({0, 2, 1, 3}) : found.permute({2, 0, 1, 3})).flatten(2);
  result.output = out_proj_(batched ? joined : joined.squeeze(batch_dim));
  return result;
}

}  // namespace mezzo::nn
