// Cases of pairwise distances and of renorm.
#include <algorithm>
#include <limits>

#include "reduce_oracle.h"

using namespace cases;
using namespace mezzo;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double p_norm(const Line& x, double p) {
  double sum = 0, greatest = 0;
  for (const double v : x) {
    sum += p == 0 ? (v != 0 ? 1 : 0) : std::pow(std::abs(v), p);
    greatest = std::max(greatest, std::abs(v));
  }
  return std::isinf(p) ? greatest : p == 0 ? sum : std::pow(sum, 1 / p);
}

/** Returns the distance of row i of matrix a and row j of matrix b, where rows are counted
 *  over all matrices of a batch. */
double row_distance(const Array& a, std::int64_t i, const Array& b, std::int64_t j, double p) {
  const std::int64_t length = a.shape.back();
  Line d;
  for (std::int64_t m = 0; m < length; ++m) d.push_back(a[i * length + m] - b[j * length + m]);
  return p_norm(d, p);
}

/** Distances of all pairs; one 3-D operand may hold a single matrix. */
Oracle all_pairs(double p) {
  return [=](const std::vector<Array>& x) {
    const auto matrices = [](const Array& a) { return a.shape.rank() == 2 ? 1 : a.shape[0]; };
    const int r0 = x[0].shape.rank(), r1 = x[1].shape.rank();
    const std::int64_t rows = x[0].shape[r0 - 2], columns = x[1].shape[r1 - 2];
    const std::int64_t count = std::max(matrices(x[0]), matrices(x[1]));
    Array y{{rows, columns}, {}};
    if (std::max(r0, r1) == 3) y.shape.insert(0, count);
    for (std::int64_t b = 0; b < count; ++b)
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j)
          y.values.push_back(row_distance(x[0], b % matrices(x[0]) * rows + i, x[1],
                                          b % matrices(x[1]) * columns + j, p));
    return std::vector<Array>{y};
  };
}

Oracle each_pair(double p) {
  return [=](const std::vector<Array>& x) {
    const std::int64_t n = x[0].shape[0];
    Array y{{n * (n - 1) / 2}, {}};
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = i + 1; j < n; ++j)
        y.values.push_back(row_distance(x[0], i, x[0], j, p));
    return std::vector<Array>{y};
  };
}

Oracle renormed(const std::vector<int>& others, double p, double maxnorm) {
  return lines_by(others, [=](const Line& x) {
    const double n = p_norm(x, p);
    Line y = x;
    if (n > maxnorm)
      for (double& v : y) v *= maxnorm / (n + 1e-7);
    return y;
  });
}

// No coordinates of two vectors are equal, where these norms have kinks.
const std::vector<Operand> kApart{{.low = 0.5, .high = 2, .positive_definite_gap = true},
                                  {.low = -2, .high = -0.5, .positive_definite_gap = true}};

void add_cdist() {
  const std::vector<std::vector<Shape>> shapes{{{3, 4}, {2, 4}},    {{2, 3, 5}, {2, 4, 5}},
                                               {{3, 2}, {2, 1, 2}}, {{0, 3}, {2, 3}},
                                               {{2, 0}, {3, 0}},    {{1, 70}, {2, 70}}};
  for (const double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, kInf}) {
    // Each row's largest difference is unique.
    const std::vector<Operand> tops{{.low = 0.5, .high = 2, .positive_definite_gap = true},
                                    {.low = -0.01, .high = 0}};
    add_case({.op = "cdist",
              .variant = "p " + std::to_string(p),
              .call =
                  [=](const std::vector<Tensor>& x) {
                    return std::vector<Tensor>{cdist(x[0], x[1], {.p = p})};
                  },
              .oracle = all_pairs(p),
              .operands = p == kInf ? tops : kApart,
              .shapes = p == kInf
                            ? std::vector<std::vector<Shape>>{{{3, 4}, {2, 4}}, {{2, 3, 5}, {4, 5}}}
                            : shapes,
              .factor = 16});
  }
  add_case({.op = "cdist",
            .variant = "large",
            .call = CALL(cdist(x[0], x[1])),
            .oracle = all_pairs(2),
            .operands = kApart,
            .shapes = {{{27, 3}, {2, 3}}, {{2, 3}, {2, 30, 3}}},
            .factor = 16});
  add_case({.op = "cdist",
            .variant = "by products",
            .call = CALL(cdist(x[0], x[1], {.compute_mode = CdistMode::use_mm})),
            .oracle = all_pairs(2),
            .operands = kApart,
            .shapes = shapes,
            .factor = 16});
  add_case({.op = "cdist",
            .variant = "many, without products",
            .call = CALL(cdist(x[0], x[1], {.compute_mode = CdistMode::do_not_use_mm})),
            .oracle = all_pairs(2),
            .operands = kApart,
            .shapes = {{{3, 3}, {67, 3}}, {{129, 2}, {2, 2}}},
            .factor = 16});
}

const Registrar additions([] {
  add_cdist();
  for (const double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, kInf})
    add_case({.op = "pdist",
              .variant = "p " + std::to_string(p),
              .call =
                  [=](const std::vector<Tensor>& x) {
                    return std::vector<Tensor>{pdist(x[0], {.p = p})};
                  },
              .oracle = each_pair(p),
              .operands = {{.positive_definite_gap = true}},
              .shapes = {{{4, 3}}, {{1, 3}}, {{0, 3}}, {{2, 5}}, {{9, 2}}},
              .factor = p < 1 ? 64.0 : 16.0});
  add_case({.op = "pdist",
            .variant = "several tiles",
            .call = CALL(pdist(x[0])),
            .oracle = each_pair(2),
            .operands = {{.positive_definite_gap = true}},
            .shapes = {{{70, 1}}},
            .factor = 16,
            .second_order = false});
  for (const double p : {1.0, 2.0, 3.0, kInf})
    for (const int dim : {0, 1, -1}) {
      const std::vector<int> others = dim == 0   ? std::vector<int>{1, 2}
                                      : dim == 1 ? std::vector<int>{0, 2}
                                                 : std::vector<int>{0, 1};
      add_case({.op = "renorm",
                .variant = "p " + std::to_string(p) + " dim " + std::to_string(dim),
                .call =
                    [=](const std::vector<Tensor>& x) {
                      return std::vector<Tensor>{renorm(x[0], p, dim, 2.5)};
                    },
                .oracle = renormed(others, p, 2.5),
                .operands = {{.low = -2, .high = 2.6, .kinks = {0}, .positive_definite_gap = true}},
                .shapes = {{{3, 4, 2}}, {{2, 3, 5}}, {{0, 2, 3}}},
                .factor = 16});
    }
  add_case({.op = "renorm",
            .variant = "in place",
            .call = CALL(renorm_(x[0] * 1, 2, 0, 1.5)),
            .oracle = renormed({1}, 2, 1.5),
            .shapes = {{{3, 4}}, {{5, 2}}},
            .factor = 8});
});

}  // namespace
