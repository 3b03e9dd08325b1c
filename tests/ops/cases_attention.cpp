// Cases of scaled_dot_product_attention.
#include <limits>

#include "../../tensor/random/philox.h"

#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

enum class MaskKind { none, boolean, floating, causal };

struct Setting {
  MaskKind mask = MaskKind::none;
  double scale = 0;  // 0: the default
  double dropout_p = 0;
};

/** Computes every score separately in f64. */
Oracle attention_oracle(const Setting& setting) {
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

const Registrar attention([] {
  const std::string op = "scaled_dot_product_attention";
  const std::vector<std::vector<Shape>> shapes = {{{2, 2, 5, 4}, {2, 2, 7, 4}, {2, 2, 7, 3}},
                                                  {{3, 2}, {4, 2}, {4, 2}},
                                                  {{1, 1}, {1, 1}, {1, 1}},
                                                  {{2, 35, 3}, {1, 3, 3}, {3, 2}},
                                                  {{2, 3}, {270, 3}, {270, 1}},
                                                  {{0, 3, 2}, {0, 4, 2}, {0, 4, 2}},
                                                  {{2, 0, 2}, {2, 3, 2}, {2, 3, 2}},
                                                  {{2, 2}, {0, 2}, {0, 3}}};
  add_case({.op = op,
            .call = CALL(scaled_dot_product_attention(x[0], x[1], x[2])),
            .oracle = attention_oracle({}),
            .operands = {{}, {}, {}},
            .shapes = shapes,
            .factor = 4,
            .rounds_inside = true});
  add_case({.op = op,
            .variant = "causal, with a scale",
            .call = CALL(
                scaled_dot_product_attention(x[0], x[1], x[2], {.is_causal = true, .scale = 0.7})),
            .oracle = attention_oracle({.mask = MaskKind::causal, .scale = 0.7}),
            .operands = {{}, {}, {}},
            .shapes = {{{2, 5, 4}, {2, 7, 4}, {2, 7, 3}},
                       {{6, 2}, {4, 2}, {4, 2}},
                       {{3, 37, 2}, {37, 2}, {37, 1}}},
            .factor = 4,
            .rounds_inside = true});
  add_case({.op = op,
            .variant = "bool mask",
            .call = CALL(scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3]})),
            .oracle = attention_oracle({.mask = MaskKind::boolean}),
            .operands = {{}, {}, {}, {.boolean = true}},
            .shapes = {{{2, 2, 5, 4}, {2, 2, 3, 4}, {2, 2, 3, 3}, {2, 2, 5, 3}},
                       {{2, 5, 4}, {2, 2, 4}, {2, 2, 3}, {2, 1, 2}},
                       {{5, 2}, {3, 2}, {3, 2}, {3}},
                       {{2, 3, 2}, {2, 1, 2}, {2, 1, 2}, {3, 1}}},
            .factor = 4,
            .rounds_inside = true});
  add_case({.op = op,
            .variant = "floating mask",
            .call = CALL(scaled_dot_product_attention(x[0], x[1], x[2], {.mask = x[3]})),
            .oracle = attention_oracle({.mask = MaskKind::floating}),
            .operands = {{}, {}, {}, {}},
            .shapes = {{{2, 2, 5, 4}, {2, 2, 3, 4}, {2, 2, 3, 3}, {2, 2, 5, 3}},
                       {{2, 5, 4}, {2, 2, 4}, {2, 2, 3}, {5, 1}},
                       {{5, 2}, {3, 2}, {3, 2}, {3}}},
            .factor = 6,
            .rounds_inside = true});
  add_case({.op = op,
            .variant = "dropout",
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
            .rounds_inside = true});
});

}  // namespace
