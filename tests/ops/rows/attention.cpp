// Rows of scaled_dot_product_attention.
#include <limits>

#include "../../../tensor/random/philox.h"
#include "../row.h"
#include "letters.h"
#include "smoke_lines.h"

using namespace cases;
using namespace rows;
using namespace mezzo;

namespace {

enum class MaskKind { none, boolean, floating, causal };

struct AttentionSetting {
  MaskKind mask = MaskKind::none;
  double scale = 0;  // 0: the default
  double dropout_p = 0;
};

/** Computes every score separately in f64. */
Oracle attention_oracle(const AttentionSetting& setting) {
  return [=](const std::vector<Array>& x) {
    const Array &q = x[0], &k = x[1], &v = x[2];
    const auto lead = [](Shape s) {
      s.erase(s.rank() - 1);
      s.erase(s.rank() - 1);
      return s;
    };
    const Shape batch = broadcast_shapes(broadcast_shapes(lead(q.shape), lead(k.shape), "oracle"),
                                         lead(v.shape), "oracle");
    const std::int64_t l = q.shape[q.shape.rank() - 2], e = q.shape.back(),
                       s = k.shape[k.shape.rank() - 2], f = v.shape.back();
    std::int64_t entries = 1;
    for (const std::int64_t size : batch) entries *= size;
    const auto with = [&](std::int64_t rows, std::int64_t columns) {
      Shape shape = batch;
      shape.push_back(rows);
      shape.push_back(columns);
      return shape;
    };
    const double scale = setting.scale != 0 ? setting.scale : 1 / std::sqrt(static_cast<double>(e));
    Array y{with(l, f), std::vector<double>(static_cast<std::size_t>(entries * l * f), 0.0)};
    for (std::int64_t n = 0; n < entries; ++n)
      for (std::int64_t i = 0; i < l; ++i) {
        std::vector<double> p(static_cast<std::size_t>(s));
        double sum = 0;
        for (std::int64_t j = 0; j < s; ++j) {
          double score = 0;
          for (std::int64_t c = 0; c < e; ++c)
            score += scale * broadcast_at(q, with(l, e), (n * l + i) * e + c) *
                     broadcast_at(k, with(s, e), (n * s + j) * e + c);
          const double m = x.size() > 3 ? broadcast_at(x[3], with(l, s), (n * l + i) * s + j) : 0;
          if (setting.mask == MaskKind::floating) score += m;
          const bool hidden = (setting.mask == MaskKind::boolean && m == 0) ||
                              (setting.mask == MaskKind::causal && j > i);
          sum += p[static_cast<std::size_t>(j)] = hidden ? 0 : std::exp(score);
        }
        if (sum == 0) continue;
        for (std::int64_t j = 0; j < s; ++j) {
          double weight = p[static_cast<std::size_t>(j)] / sum;
          if (setting.dropout_p > 0) {
            const auto element = static_cast<std::uint64_t>((n * l + i) * s + j);
            const std::uint32_t word = philox_block({5, 0}, element / 4).word[element % 4];
            const bool kept = bernoulli(word, bernoulli_threshold(1 - setting.dropout_p));
            weight = kept ? weight / (1 - setting.dropout_p) : 0;
          }
          for (std::int64_t c = 0; c < f; ++c)
            y.values[static_cast<std::size_t>((n * l + i) * f + c)] +=
                weight * broadcast_at(v, with(s, f), (n * s + j) * f + c);
        }
      }
    return std::vector<Array>{y};
  };
}

/** Returns the options with the mask of operand 3, if there is one. */
AttentionOptions masked(AttentionOptions o, const Tensors& x) {
  o.mask = optional(x, 3);
  return o;
}

const char* const kOp = "scaled_dot_product_attention";

const Rows attention_rows("sequence", [] {
  const std::string op = kOp;
  const std::vector<std::vector<Shape>> shapes = {{{2, 2, 5, 4}, {2, 2, 7, 4}, {2, 2, 7, 3}},
                                                  {{3, 2}, {4, 2}, {4, 2}},
                                                  {{1, 1}, {1, 1}, {1, 1}},
                                                  {{2, 35, 3}, {1, 3, 3}, {3, 2}},
                                                  {{2, 3}, {270, 3}, {270, 1}},
                                                  {{0, 3, 2}, {0, 4, 2}, {0, 4, 2}},
                                                  {{2, 0, 2}, {2, 3, 2}, {2, 3, 2}},
                                                  {{2, 2}, {0, 2}, {0, 3}}};
  const std::string qkv = "real(2, 2, 3, 4), real(2, 2, 5, 4), real(2, 2, 5, 3)";
  row(kOp,
      CALL(scaled_dot_product_attention(x[0], x[1], x[2], masked(o, x)), const AttentionOptions& o))
      .test({.oracle = attention_oracle({}),
             .operands = {{}, {}, {}},
             .shapes = shapes,
             .factor = 4,
             .rounds_inside = true})
      .test({.variant = "causal, with a scale",
             .oracle = attention_oracle({.mask = MaskKind::causal, .scale = 0.7}),
             .operands = {{}, {}, {}},
             .shapes = {{{2, 5, 4}, {2, 7, 4}, {2, 7, 3}},
                        {{6, 2}, {4, 2}, {4, 2}},
                        {{3, 37, 2}, {37, 2}, {37, 1}}},
             .factor = 4,
             .rounds_inside = true},
            {.is_causal = true, .scale = 0.7})
      .test({.variant = "bool mask",
             .oracle = attention_oracle({.mask = MaskKind::boolean}),
             .operands = {{}, {}, {}, {.boolean = true}},
             .shapes = {{{2, 2, 5, 4}, {2, 2, 3, 4}, {2, 2, 3, 3}, {2, 2, 5, 3}},
                        {{2, 5, 4}, {2, 2, 4}, {2, 2, 3}, {2, 1, 2}},
                        {{5, 2}, {3, 2}, {3, 2}, {3}},
                        {{2, 3, 2}, {2, 1, 2}, {2, 1, 2}, {3, 1}}},
             .factor = 4,
             .rounds_inside = true})
      .test({.variant = "floating mask",
             .oracle = attention_oracle({.mask = MaskKind::floating}),
             .operands = {{}, {}, {}, {}},
             .shapes = {{{2, 2, 5, 4}, {2, 2, 3, 4}, {2, 2, 3, 3}, {2, 2, 5, 3}},
                        {{2, 5, 4}, {2, 2, 4}, {2, 2, 3}, {5, 1}},
                        {{5, 2}, {3, 2}, {3, 2}, {3}}},
             .factor = 6,
             .rounds_inside = true})
      .test({.variant = "dropout",
             .call =
                 [](const std::vector<Tensor>& x) {
                   manual_seed(5);
                   return std::vector<Tensor>{
                       scaled_dot_product_attention(x[0], x[1], x[2], {.dropout_p = 0.3})};
                 },
             .oracle = attention_oracle({.dropout_p = 0.3}),
             .operands = {{}, {}, {}},
             .shapes = {{{2, 2, 5, 4}, {2, 2, 7, 4}, {2, 2, 7, 3}}, {{3, 2}, {4, 2}, {4, 2}}},
             .factor = 4,
             .rounds_inside = true})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const bool heads = d.flag();
        const Tensor q = heads ? s({0, 5, 1, 4}) : s({0, 1, 4}),
                     k = heads ? s({0, 5, 2, 4}) : s({2, 4}),
                     v = heads ? s({0, 5, 2, 3}) : s({0, 2, 3});
        Tensors x{q, k, v};
        AttentionOptions options{.is_causal = d.flag()};
        if (d.flag()) x.push_back(d.tensor({s.n[1], s.n[2]}, d.flag() ? DType::boolean : s.dtype));
        if (d.chance(0.3)) options.dropout_p = d.real(-0.2, 1.2);
        if (d.flag()) options.scale = d.real();
        Expected expected = refused();
        if (q.dim() >= 2 && k.dim() >= 2 && v.dim() >= 2 && q.size(-1) == k.size(-1) &&
            k.size(-2) == v.size(-2)) {
          Sizes lead[3];
          for (std::size_t i = 0; i < 3; ++i) {
            lead[i] = sizes(x[i]);
            lead[i].resize(lead[i].size() - 2);
          }
          if (auto shape = broadcast(broadcast(lead[0], lead[1]), lead[2])) {
            shape->push_back(q.size(-2));
            shape->push_back(v.size(-1));
            expected = gives(shape);
          }
        }
        return Trial{call(x, options), expected};
      })
      .golden({"", "attention", qkv})
      .golden({"scale", "attention(x0, x1, x2, factor=0.3)", qkv}, {.scale = 0.3})
      .golden({"mask", "attention(x0, x1, x2, barred(x3).to(x0.dtype))",
               qkv + ", given([[True, False, True, True, False], [False, False, False, False, "
                     "True], [True] * 5])"})
      .golden({"bias", "attention", qkv + ", real(2, 1, 3, 5)"})
      .golden(
          {"causal",
           "attention(x0, x1, x2, barred(torch.ones(3, 5, dtype=torch.bool).tril()).to(x0.dtype))",
           qkv},
          {.is_causal = true});
});

// ---- the smoke test -----------------------------------------------------------------------------

/** A mask that hides the last keys of all queries, as padding does. */
Tensor padding(const Tensor& keys) {
  return arange(keys.size(-2), {.device = keys.device()}) < keys.size(-2) - 3;
}

/** What the scores go through, beside softmax. The last four: a random mask that broadcasts over
 *  entries, heads or queries, or over nothing. */
enum class Scores : std::uint8_t {
  all,
  causal,
  padded,
  dropout,
  causal_dropout,
  over_entries,
  over_heads,
  over_queries,
  masked
};
constexpr const char* kNames[] = {"",
                                  " causal",
                                  " padded",
                                  " dropout",
                                  " causal dropout",
                                  " mask, 1 entry",
                                  " mask, 1 head",
                                  " mask, 1 query",
                                  " mask"};

Tensors attend(const Tensors& x, Scores kind) {
  AttentionOptions options{.is_causal = kind == Scores::causal || kind == Scores::causal_dropout};
  if (kind == Scores::padded) options.mask = padding(x[1]);
  if (kind >= Scores::over_entries) options.mask = x[3];
  if (kind == Scores::dropout || kind == Scores::causal_dropout) options.dropout_p = 0.1;
  manual_seed(1);
  return {scaled_dot_product_attention(x[0], x[1], x[2], options)};
}

Smoke smoke_attention(Scores kind, bool backward, const std::vector<DType>& dtypes) {
  const bool is_causal = kind == Scores::causal || kind == Scores::causal_dropout;
  return {
      .name = str("attention %", kNames[static_cast<std::size_t>(kind)],
                  backward ? " backward" : " forward"),
      .dtypes = dtypes,
      .operands =
          [=](const Maker& make, DType dtype) {
            const std::int64_t batch = make.pick(2, 2, 8), heads = make.pick(2, 4, 12),
                               length = make.pick(20, 200, 1024);
            const Shape shape{batch, heads, length, 64};
            Tensors x{make.normal(shape, dtype), make.normal(shape, dtype),
                      make.normal(shape, dtype)};
            if (kind >= Scores::over_entries)
              x.push_back(make.indices(8, {kind == Scores::over_entries ? 1 : batch,
                                           kind == Scores::over_heads ? 1 : heads,
                                           kind == Scores::over_queries ? 1 : length, length}) > 0);
            return x;
          },
      .passes = backward ? 8.0 : 4.0,
      .factor = 2,  // cuDNN also rounds the probabilities
      .backward = backward,
      .by_library = is_low(dtypes[0]),
      .flops =
          [=](const Tensors& x) {
            const double length = static_cast<double>(x[0].size(2));
            return 4 * static_cast<double>(x[0].numel()) * length * (is_causal ? 0.5 : 1) *
                   (backward ? 2.5 : 1);
          }};
}

/** Queries and keys whose scores are near -120 where the mask hides nothing. */
Tensors attend_low_scores(const Tensors& x) {
  // Without gradients of the large numbers, which are sums that cancel each other.
  const Tensor others = arange(64.0, {.device = x[0].device()}) > 0;
  const Tensor q = where(others, x[0], 1.0), k = where(others, x[1], -960.0);
  return {scaled_dot_product_attention(q, k, x[2], {.mask = x[3]})};
}

/** Causal self-attention within one projection. */
Smoke smoke_self_attention(bool backward, const std::vector<DType>& dtypes) {
  const auto heads = [](const Maker& make) { return make.pick(2, 4, 12); };
  return {.name = backward ? "self-attention % backward" : "self-attention % forward",
          .dtypes = dtypes,
          .operands =
              [=](const Maker& make, DType dtype) {
                return Tensors{make.normal(
                    {make.pick(1, 2, 8), make.pick(20, 200, 1024), 3 * heads(make) * 64}, dtype)};
              },
          .passes = backward ? 8.0 : 4.0,
          .factor = 4,
          .backward = backward,
          .by_library = is_low(dtypes[0]),
          .flops =
              [=](const Tensors& x) {
                return 2 * static_cast<double>(x[0].numel()) / 3 *
                       static_cast<double>(x[0].size(1)) * (backward ? 2.5 : 1);
              }};
}

const Rows attention_smoke_rows("", [] {
  auto any_scores = row(kOp, CALL(attend(x, kind), Scores kind));
  for (int i = 0; i < static_cast<int>(std::size(kNames)); ++i)
    for (const bool backward : {false, true})
      for (const std::vector<DType>& dtypes : {std::vector{f32}, std::vector{f16, bf16}})
        any_scores.smoke(smoke_attention(static_cast<Scores>(i), backward, dtypes),
                         static_cast<Scores>(i));
  for (const Scores kind : {Scores::all, Scores::causal_dropout, Scores::over_queries})
    for (const bool backward : {false, true})
      any_scores.smoke(smoke_attention(kind, backward, {f64}), kind);
  // A mask that hides nothing, 64 keys modulo 128, and scores near -120: the gradients that cuDNN
  // 9.19 returns nan for (pytorch's issue 196678).
  row(kOp, CALL(attend_low_scores(x)))
      .smoke({.name = "attention % low scores backward",
              .dtypes = {f16, bf16},
              .operands =
                  [](const Maker& make, DType dtype) {
                    const std::int64_t length = make.pick(64, 192, 1088);
                    const Shape shape{1, 2, length, 64};
                    return Tensors{make.normal(shape, dtype) * 0.1, make.normal(shape, dtype) * 0.1,
                                   make.normal(shape, dtype),
                                   make.fill({length}, 1, DType::boolean)};
                  },
              .passes = 8,
              .factor = 2,
              .backward = true,
              .by_library = true});
  auto within_one = row(kOp, CALL(nn::causal_self_attention(x[0], x[0].size(-1) / (3 * 64))));
  for (const bool backward : {false, true})
    for (const std::vector<DType>& dtypes : {std::vector{f32}, std::vector{f16, bf16}})
      within_one.smoke(smoke_self_attention(backward, dtypes));
});

}  // namespace
