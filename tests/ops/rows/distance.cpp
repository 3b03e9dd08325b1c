// Rows of matrix norms, normalisation by a norm, distances and angles.
#include <algorithm>

#include "../../support/values.h"
#include "../reduce_oracle.h"
#include "../row.h"

using namespace cases;
using namespace rows;
using namespace mezzo;
using testing::kInf;

namespace {

Shape common(const std::vector<Array>& x) {
  return broadcast_shapes(x[0].shape, x[1].shape, "oracle");
}

/** Applies f to the elements of a and b, broadcast. */
Array combined(const std::vector<Array>& x, const std::function<double(double, double)>& f) {
  Array y{common(x), {}};
  for (std::int64_t i = 0, n = checked_numel(y.shape, "oracle"); i < n; ++i)
    y.values.push_back(f(broadcast_at(x[0], y.shape, i), broadcast_at(x[1], y.shape, i)));
  return y;
}

Oracle distance_oracle(const std::vector<int>& dims, bool keepdim, double p, double eps) {
  return [=](const std::vector<Array>& x) {
    const Array d = combined(x, [=](double a, double b) { return a - b + eps; });
    return reduced_by(dims, keepdim, [=](const Line& line) { return p_norm(line, p); })({d});
  };
}

Oracle cosine(int dim) {
  return [=](const std::vector<Array>& x) {
    const Array a = combined(x, [](double u, double) { return u; });
    const Array b = combined(x, [](double, double v) { return v; });
    const Array ab = combined(x, [](double u, double v) { return u * v; });
    const auto length = [](const Line& line) { return std::max(p_norm(line, 2), 1e-8); };
    const auto total = [](const Line& line) {
      double sum = 0;
      for (const double v : line) sum += v;
      return sum;
    };
    Array y = reduced_by({dim}, false, total)({ab})[0];
    const Array u = reduced_by({dim}, false, length)({a})[0],
                v = reduced_by({dim}, false, length)({b})[0];
    for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] /= u.values[i] * v.values[i];
    return std::vector<Array>{y};
  };
}

Line normalized_line(const Line& x, double p) {
  Line y = x;
  for (double& v : y) v /= std::max(p_norm(x, p), 1e-12);
  return y;
}

/** Extreme over `ordered` of the sums of |x| over `summed`; keeps or drops both dimensions. */
Oracle extreme_sum(int summed, int ordered, bool greatest, bool keepdim) {
  return [=](const std::vector<Array>& x) {
    const auto total = [](const Line& line) { return p_norm(line, 1); };
    const auto extreme = [=](const Line& line) {
      return greatest ? *std::max_element(line.begin(), line.end())
                      : *std::min_element(line.begin(), line.end());
    };
    Array y = reduced_by({ordered}, true, extreme)(reduced_by({summed}, true, total)(x))[0];
    if (!keepdim) {
      y.shape.erase(std::max(summed, ordered));
      y.shape.erase(std::min(summed, ordered));
    }
    return std::vector<Array>{y};
  };
}

void test_orders(Row<MatrixOrder, MatrixNormOptions>& row) {
  for (const bool keepdim : {false, true}) {
    const std::string kept = keepdim ? " keepdim" : "";
    const auto fro = [](const Line& line) { return p_norm(line, 2); };
    row.test({.variant = "fro" + kept,
              .oracle = reduced_by({1, 2}, keepdim, fro),
              .shapes = {{{1, 3, 4}}, {{2, 5, 2}}, {{0, 3, 2}}, {{2, 0, 2}}, {{2, 9, 17}}}},
             "fro", {.keepdim = keepdim});
    for (const double order : {1.0, -1.0, kInf, -kInf}) {
      const bool columns = std::abs(order) == 1;
      row.test({.variant = std::to_string(order) + kept,
                .oracle = extreme_sum(columns ? 1 : 2, columns ? 2 : 1, order > 0, keepdim),
                .operands = {{.low = -3, .high = 3, .kinks = {0}, .positive_definite_gap = true}},
                .shapes = {{{1, 3, 4}}, {{2, 5, 2}}, {{0, 3, 2}}, {{2, 9, 17}}},
                .factor = 4},
               order, {.keepdim = keepdim});
    }
  }
  row.test({.variant = "columns along the first dimension",
            .oracle = extreme_sum(2, 0, true, false),
            .operands = {{.low = -3, .high = 3, .positive_definite_gap = true}},
            .shapes = {{{3, 2, 4}}},
            .factor = 4},
           1, {.dim = {2, 0}});
}

const std::vector<std::vector<Shape>> kPairs{{{4}, {4}},          {{3, 4}, {3, 4}},
                                             {{3, 4}, {4}},       {{1, 4}, {3, 1}},
                                             {{2, 3, 5}, {3, 1}}, {{0, 3}, {0, 3}}};

/** The orders of norms for which there are cases. */
constexpr double kOrders[] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, kInf};

std::string norm_name(double p) { return "p " + std::to_string(p); }

// Far enough apart that no difference is near 0, where these norms have kinks.
const std::vector<Operand> apart{{.low = 0.5, .high = 2, .positive_definite_gap = true},
                                 {.low = -2, .high = -0.5, .positive_definite_gap = true}};

const Rows matrix_norm_rows("reduce", [] {
  auto orders =
      row("matrix_norm",
          CALL(matrix_norm(x[0], order, o), const MatrixOrder& order, const MatrixNormOptions& o))
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor x = d.floats(1, 4);
            MatrixNormOptions options{.keepdim = d.flag()};
            options.dim = {d.dim(x.dim()), d.dim(x.dim())};
            const double order = d.flag() ? 1 : d.real();
            const bool frobenius = d.flag();
            return Trial{call({x}, frobenius ? MatrixOrder("fro") : MatrixOrder(order), options),
                         x.dim() < 2 ? refused()
                                     : gives(reduced(sizes(x), {options.dim[0], options.dim[1]},
                                                     options.keepdim))};
          })
          .golden({"fro", "torch.linalg.matrix_norm(x0, 'fro')", "distinct(2, 3, 4)"}, "fro", {})
          .golden({"1", "torch.linalg.matrix_norm(x0, 1)", "distinct(2, 3, 4)"}, 1, {})
          .golden({"-1", "torch.linalg.matrix_norm(x0, -1)", "distinct(2, 3, 4)"}, -1, {})
          .golden({"inf", "torch.linalg.matrix_norm(x0, INF)", "distinct(2, 3, 4)"}, kInf, {})
          .golden({"-inf", "torch.linalg.matrix_norm(x0, -INF)", "distinct(2, 3, 4)"}, -kInf, {});
  test_orders(orders);
  auto normal =
      row("normalize", CALL(normalize(x[0], o), const NormalizeOptions& o))
          .test({.variant = "both dimensions, both signs",
                 .oracle = lines_by({0, 1}, [](const Line& x) { return normalized_line(x, 2); }),
                 .shapes = {{{3, 4}}, {{2, 17}}},
                 .factor = 4},
                {.dim = {0, -1}})
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor x = d.floats(0, 4);
            const std::int64_t dim = d.dim(x.dim());
            const double p = d.real(-1, 3), eps = d.real(0, 1);
            return Trial{call({x}, {p, dim, eps}),
                         resolved(dim, x.shape().size()) ? gives(sizes(x)) : refused()};
          })
          .golden({"", "F.normalize", "real(3, 4)"})
          .golden({"p 1", "F.normalize(x0, 1, 0)", "real(3, 4)"}, {.p = 1, .dim = 0})
          .golden({"small", "F.normalize(x0, eps=10.)", "real(3, 4)"}, {.eps = 10});
  for (const double p : kOrders) {
    const std::string name = norm_name(p);
    normal.test({.variant = name,
                 .oracle = lines_by({1}, [=](const Line& x) { return normalized_line(x, p); }),
                 .operands = {{.low = 0.2, .high = 2, .positive_definite_gap = p == kInf}},
                 .shapes = {{{3, 4}}, {{2, 5, 3}}, {{0, 3}}, {{2, 70}}},
                 .factor = 16},
                {.p = p});
  }
});

const Rows distance_rows("reduce", [] {
  auto one = row("dist", CALL(dist(x[0], x[1], o), const DistOptions& o))
                 .test({.variant = "p inf",
                        .oracle = distance_oracle({}, false, kInf, 0),
                        .operands = {{.low = 0.5, .high = 2, .positive_definite_gap = true},
                                     {.low = -1, .high = -0.9}},
                        .shapes = {{{4}, {4}}, {{3, 4}, {3, 4}}, {{3, 4}, Shape{}}}},
                       {.p = kInf})
                 .fuzz([](FuzzDraw& d, const auto& call) {
                   const Tensor a = d.floats(0, 4), b = d.floats(d.like(a.shape()));
                   const double p = d.real(-1, 3);
                   return Trial{call({a, b}, {p}),
                                broadcast(sizes(a), sizes(b)) ? gives(Sizes{}) : refused()};
                 })
                 .golden({"", "torch.dist", "real(3, 4), real(3, 4)"})
                 .golden({"p 1", "torch.dist(x0, x1, 1)", "real(3, 4), real(4)"}, {.p = 1});
  auto pairs =
      row("pairwise_distance",
          CALL(pairwise_distance(x[0], x[1], o), const PairwiseDistanceOptions& o))
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor a = d.floats(0, 4), b = d.floats(d.like(a.shape()));
            const PairwiseDistanceOptions options{d.real(-1, 3), d.real(0, 1), d.flag()};
            const auto both = broadcast(sizes(a), sizes(b));
            return Trial{call({a, b}, options), both && !both->empty()
                                                    ? gives(reduced(*both, {-1}, options.keepdim))
                                                    : refused()};
          })
          .golden({"", "F.pairwise_distance", "real(3, 4), real(3, 4)"})
          .golden(
              {"p 1", "F.pairwise_distance(x0, x1, 1., keepdim=True)", "real(3, 4), real(3, 4)"},
              {.p = 1, .keepdim = true});
  for (const double p : kOrders) {
    const std::string name = norm_name(p);
    if (p != kInf)
      one.test({.variant = name,
                .oracle = distance_oracle({}, false, p, 0),
                .operands = apart,
                .shapes = kPairs,
                .factor = 16},
               {.p = p});
    for (const bool keepdim : {false, true})
      pairs.test({.variant = name + (keepdim ? " keepdim" : ""),
                  .oracle =
                      [=](const std::vector<Array>& x) {
                        return distance_oracle({common(x).rank() - 1}, keepdim, p, 1e-6)(x);
                      },
                  .operands = apart,
                  .shapes = p == kInf ? std::vector<std::vector<Shape>>{{{4}, {4}},
                                                                        {{3, 4}, {3, 4}},
                                                                        {{0, 3}, {0, 3}}}
                                      : kPairs,
                  .factor = 16},
                 {.p = p, .keepdim = keepdim});
  }
  auto angles = row("cosine_similarity",
                    CALL(cosine_similarity(x[0], x[1], o), const CosineSimilarityOptions& o))
                    .fuzz([](FuzzDraw& d, const auto& call) {
                      const Tensor a = d.floats(0, 4), b = d.floats(d.like(a.shape()));
                      const std::int64_t dim = d.number(-2, 2);
                      const double eps = d.real(0, 1);
                      const auto both = broadcast(sizes(a), sizes(b));
                      return Trial{call({a, b}, {dim, eps}),
                                   both ? gives(reduced(*both, {dim}, false)) : refused()};
                    })
                    .golden({"", "F.cosine_similarity", "real(3, 4), real(3, 4)"})
                    .golden({"first dimension", "F.cosine_similarity(x0, x1, 0, 1e-3)",
                             "real(3, 4), real(3, 1)"},
                            {.dim = 0, .eps = 1e-3});
  for (const int dim : {0, 1})
    angles.test({.variant = "dim " + std::to_string(dim),
                 .oracle = cosine(dim),
                 .operands = {{.low = 0.2}, {}},
                 .shapes = {{{3, 4}, {3, 4}},
                            {{3, 4}, {4}},
                            {{1, 4}, {3, 1}},
                            {{2, 3, 5}, {3, 1}},
                            {{2, 0}, {2, 0}}},
                 .factor = 8},
                {.dim = dim});
});

}  // namespace
