// Rows of pairwise distances and of renorm.
#include <algorithm>

#include "../../support/values.h"
#include "../reduce_oracle.h"
#include "../row.h"
#include "smoke_lines.h"

using namespace cases;
using namespace rows;
using namespace mezzo;
using testing::kInf;

namespace {

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
const std::vector<Operand> kApartPairs{{.low = 0.5, .high = 2, .positive_definite_gap = true},
                                       {.low = -2, .high = -0.5, .positive_definite_gap = true}};

const Rows pair_rows("reduce", [] {
  const std::vector<std::vector<Shape>> shapes{{{3, 4}, {2, 4}},    {{2, 3, 5}, {2, 4, 5}},
                                               {{3, 2}, {2, 1, 2}}, {{0, 3}, {2, 3}},
                                               {{2, 0}, {3, 0}},    {{1, 70}, {2, 70}}};
  auto of_two =
      row("cdist", CALL(cdist(x[0], x[1], o), const CdistOptions& o))
          .test({.variant = "large",
                 .oracle = all_pairs(2),
                 .operands = kApartPairs,
                 .shapes = {{{27, 3}, {2, 3}}, {{2, 3}, {2, 30, 3}}},
                 .factor = 16})
          .test({.variant = "by products",
                 .oracle = all_pairs(2),
                 .operands = kApartPairs,
                 .shapes = shapes,
                 .factor = 16},
                {.compute_mode = CdistMode::use_mm})
          .test({.variant = "many, without products",
                 .oracle = all_pairs(2),
                 .operands = kApartPairs,
                 .shapes = {{{3, 3}, {67, 3}}, {{129, 2}, {2, 2}}},
                 .factor = 16},
                {.compute_mode = CdistMode::do_not_use_mm})
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor a = d.floats(1, 4);
            Shape other = d.like(a.shape());
            if (other.rank() >= 2 && a.numel() > 0 && d.flag())
              other[other.rank() - 2] = 1 + d.below(30);
            const Tensor b = d.tensor(other, a.dtype());
            const CdistOptions options{d.real(-0.5, 3),
                                       d.flag() ? CdistMode::use_mm : CdistMode::use_mm_if_large};
            Expected expected = refused();
            if (a.dim() >= 2 && b.dim() >= 2 && a.size(-1) == b.size(-1)) {
              Sizes left = sizes(a), right = sizes(b);
              const Wide rows = left[left.size() - 2], columns = right[right.size() - 2];
              left.resize(left.size() - 2);
              right.resize(right.size() - 2);
              if (auto shape = broadcast(left, right)) {
                shape->push_back(rows);
                shape->push_back(columns);
                expected = gives(shape);
              }
            }
            return Trial{call({a, b}, options), expected};
          })
          .golden({"p 0", "torch.cdist(x0, x1, 0)", "real(2, 4, 3), real(2, 5, 3)"}, {.p = 0})
          .golden({"p 1", "torch.cdist(x0, x1, 1)", "real(2, 4, 3), real(2, 5, 3)"}, {.p = 1})
          .golden({"p 2", "torch.cdist(x0, x1, 2)", "real(2, 4, 3), real(2, 5, 3)"}, {.p = 2})
          .golden({"p 3", "torch.cdist(x0, x1, 3)", "real(2, 4, 3), real(2, 5, 3)"}, {.p = 3})
          .golden({"p inf", "torch.cdist(x0, x1, INF)", "real(2, 4, 3), real(2, 5, 3)"},
                  {.p = kInf})
          .golden({"large", "torch.cdist", "real(27, 2), real(3, 2)", 20});
  auto of_one =
      row("pdist", CALL(pdist(x[0], o), const PdistOptions& o))
          .test({.variant = "several tiles",
                 .oracle = each_pair(2),
                 .operands = {{.positive_definite_gap = true}},
                 .shapes = {{{70, 1}}},
                 .factor = 16,
                 .second_order = false})
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor x = d.floats(1, 3);
            const double p = d.real(-0.5, 3);
            const Wide n = x.dim() == 2 ? x.shape()[0] : 0;
            return Trial{call({x}, {p}), x.dim() == 2 ? gives({n * (n - 1) / 2}) : refused()};
          })
          .golden({"p 0", "F.pdist(x0, 0)", "real(5, 3)"}, {.p = 0})
          .golden({"p 1", "F.pdist(x0, 1)", "real(5, 3)"}, {.p = 1})
          .golden({"p 2", "F.pdist(x0, 2)", "real(5, 3)"}, {.p = 2})
          .golden({"p 3", "F.pdist(x0, 3)", "real(5, 3)"}, {.p = 3})
          .golden({"p inf", "F.pdist(x0, INF)", "real(5, 3)"}, {.p = kInf});
  for (const double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, kInf}) {
    // Each row's largest difference is unique.
    const std::vector<Operand> tops{{.low = 0.5, .high = 2, .positive_definite_gap = true},
                                    {.low = -0.01, .high = 0}};
    of_two.test({.variant = "p " + std::to_string(p),
                 .oracle = all_pairs(p),
                 .operands = p == kInf ? tops : kApartPairs,
                 .shapes = p == kInf ? std::vector<std::vector<Shape>>{{{3, 4}, {2, 4}},
                                                                       {{2, 3, 5}, {4, 5}}}
                                     : shapes,
                 .factor = 16},
                {.p = p});
    of_one.test({.variant = "p " + std::to_string(p),
                 .oracle = each_pair(p),
                 .operands = {{.positive_definite_gap = true}},
                 .shapes = {{{4, 3}}, {{1, 3}}, {{0, 3}}, {{2, 5}}, {{9, 2}}},
                 .factor = p < 1 ? 64.0 : 16.0},
                {.p = p});
  }
  row("pdist", CALL(pdist(x[0].slice(0, 0, 200))))
      .smoke(smoke_rows("pdist", {f32}, smoke::Expected::close));
});

const Rows renorm_rows("reduce", [] {
  auto limited =
      row("renorm", CALL(renorm(x[0], p, dim, maxnorm), double p, std::int64_t dim, double maxnorm))
          .in_place(
              CALL(renorm_(x[0], p, dim, maxnorm), double p, std::int64_t dim, double maxnorm))
          .test({.variant = "in place",
                 .call = CALL(renorm_(x[0] * 1, 2, 0, 1.5)),
                 .oracle = renormed({1}, 2, 1.5),
                 .shapes = {{{3, 4}}, {{5, 2}}},
                 .factor = 8})
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor x = d.floats(0, 4);
            const std::int64_t dim = d.dim(x.dim());
            const double p = d.real(-0.5, 3), most = d.real(-0.5, 3);
            return Trial{call({x}, p, dim, most),
                         resolved(dim, x.shape().size()) ? gives(sizes(x)) : refused()};
          })
          .golden({"", "torch.renorm(x0, 2, 0, 2.)", "real(4, 3)"}, 2, 0, 2)
          .golden({"p 1", "torch.renorm(x0, 1, 1, 3.)", "real(4, 3)"}, 1, 1, 3)
          .smoke(smoke_rows("renorm", {f32}, smoke::Expected::close), 2, 0, 1);
  for (const double p : {1.0, 2.0, 3.0, kInf})
    for (const int dim : {0, 1, -1}) {
      const std::vector<int> others = dim == 0   ? std::vector<int>{1, 2}
                                      : dim == 1 ? std::vector<int>{0, 2}
                                                 : std::vector<int>{0, 1};
      limited.test(
          {.variant = "p " + std::to_string(p) + " dim " + std::to_string(dim),
           .oracle = renormed(others, p, 2.5),
           .operands = {{.low = -2, .high = 2.6, .kinks = {0}, .positive_definite_gap = true}},
           .shapes = {{{3, 4, 2}}, {{2, 3, 5}}, {{0, 2, 3}}},
           .factor = 16},
          p, dim, 2.5);
    }
});

}  // namespace
