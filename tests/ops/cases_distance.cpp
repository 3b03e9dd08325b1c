// Cases of matrix norms, normalisation by a norm, distances and angles.
#include <algorithm>
#include <limits>

#include "reduce_oracle.h"

using namespace cases;
using namespace mezzo;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

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

Oracle distance(const std::vector<int>& dims, bool keepdim, double p, double eps) {
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

Line normalized(const Line& x, double p) {
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

void add_matrix_norms() {
  for (const bool keepdim : {false, true}) {
    const std::string kept = keepdim ? " keepdim" : "";
    const auto fro = [](const Line& line) { return p_norm(line, 2); };
    add_case({.op = "matrix_norm",
              .variant = "fro" + kept,
              .call =
                  [=](const std::vector<Tensor>& x) {
                    return std::vector<Tensor>{matrix_norm(x[0], "fro", {.keepdim = keepdim})};
                  },
              .oracle = reduced_by({1, 2}, keepdim, fro),
              .shapes = {{{1, 3, 4}}, {{2, 5, 2}}, {{0, 3, 2}}, {{2, 0, 2}}, {{2, 9, 17}}}});
    for (const double order : {1.0, -1.0, kInf, -kInf}) {
      const bool columns = std::abs(order) == 1;
      add_case({.op = "matrix_norm",
                .variant = std::to_string(order) + kept,
                .call =
                    [=](const std::vector<Tensor>& x) {
                      return std::vector<Tensor>{matrix_norm(x[0], order, {.keepdim = keepdim})};
                    },
                .oracle = extreme_sum(columns ? 1 : 2, columns ? 2 : 1, order > 0, keepdim),
                .operands = {{.low = -3, .high = 3, .kinks = {0}, .positive_definite_gap = true}},
                .shapes = {{{1, 3, 4}}, {{2, 5, 2}}, {{0, 3, 2}}, {{2, 9, 17}}},
                .factor = 4});
    }
  }
  add_case({.op = "matrix_norm",
            .variant = "columns along the first dimension",
            .call = CALL(matrix_norm(x[0], 1, {.dim = {2, 0}})),
            .oracle = extreme_sum(2, 0, true, false),
            .operands = {{.low = -3, .high = 3, .positive_definite_gap = true}},
            .shapes = {{{3, 2, 4}}},
            .factor = 4});
}

const std::vector<std::vector<Shape>> kPairs{{{4}, {4}},          {{3, 4}, {3, 4}},
                                             {{3, 4}, {4}},       {{1, 4}, {3, 1}},
                                             {{2, 3, 5}, {3, 1}}, {{0, 3}, {0, 3}}};

const Registrar additions([] {
  add_matrix_norms();
  for (const double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, kInf}) {
    const std::string name = "p " + std::to_string(p);
    // Far enough apart that no difference is near 0, where these norms have kinks.
    const std::vector<Operand> apart{{.low = 0.5, .high = 2, .positive_definite_gap = true},
                                     {.low = -2, .high = -0.5, .positive_definite_gap = true}};
    if (p != kInf)
      add_case({.op = "dist",
                .variant = name,
                .call =
                    [=](const std::vector<Tensor>& x) {
                      return std::vector<Tensor>{dist(x[0], x[1], {.p = p})};
                    },
                .oracle = distance({}, false, p, 0),
                .operands = apart,
                .shapes = kPairs,
                .factor = 16});
    for (const bool keepdim : {false, true})
      add_case({.op = "pairwise_distance",
                .variant = name + (keepdim ? " keepdim" : ""),
                .call =
                    [=](const std::vector<Tensor>& x) {
                      return std::vector<Tensor>{
                          pairwise_distance(x[0], x[1], {.p = p, .keepdim = keepdim})};
                    },
                .oracle =
                    [=](const std::vector<Array>& x) {
                      return distance({common(x).rank() - 1}, keepdim, p, 1e-6)(x);
                    },
                .operands = apart,
                .shapes = p == kInf ? std::vector<std::vector<Shape>>{{{4}, {4}},
                                                                      {{3, 4}, {3, 4}},
                                                                      {{0, 3}, {0, 3}}}
                                    : kPairs,
                .factor = 16});
    add_case({.op = "normalize",
              .variant = name,
              .call =
                  [=](const std::vector<Tensor>& x) {
                    return std::vector<Tensor>{normalize(x[0], {.p = p})};
                  },
              .oracle = lines_by({1}, [=](const Line& x) { return normalized(x, p); }),
              .operands = {{.low = 0.2, .high = 2, .positive_definite_gap = p == kInf}},
              .shapes = {{{3, 4}}, {{2, 5, 3}}, {{0, 3}}, {{2, 70}}},
              .factor = 16});
  }
  add_case({.op = "dist",
            .variant = "p inf",
            .call = CALL(dist(x[0], x[1], {.p = kInf})),
            .oracle = distance({}, false, kInf, 0),
            .operands = {{.low = 0.5, .high = 2, .positive_definite_gap = true},
                         {.low = -1, .high = -0.9}},
            .shapes = {{{4}, {4}}, {{3, 4}, {3, 4}}, {{3, 4}, Shape{}}}});
  add_case({.op = "normalize",
            .variant = "both dimensions, both signs",
            .call = CALL(normalize(x[0], {.dim = {0, -1}})),
            .oracle = lines_by({0, 1}, [](const Line& x) { return normalized(x, 2); }),
            .shapes = {{{3, 4}}, {{2, 17}}},
            .factor = 4});
  for (const int dim : {0, 1})
    add_case({.op = "cosine_similarity",
              .variant = "dim " + std::to_string(dim),
              .call =
                  [=](const std::vector<Tensor>& x) {
                    return std::vector<Tensor>{cosine_similarity(x[0], x[1], {.dim = dim})};
                  },
              .oracle = cosine(dim),
              .operands = {{.low = 0.2}, {}},
              .shapes = {{{3, 4}, {3, 4}},
                         {{3, 4}, {4}},
                         {{1, 4}, {3, 1}},
                         {{2, 3, 5}, {3, 1}},
                         {{2, 0}, {2, 0}}},
              .factor = 8});
});

}  // namespace
