// Cases of the margin losses and of poisson_nll_loss.
#include <algorithm>
#include <limits>

#include "loss_oracle.h"

using namespace cases;
using namespace mezzo;

namespace {

/** Oracles here compute one loss per line of operands; `line` has each operand's part of it. */
using Line = std::vector<double>;
using LineLoss = std::function<double(const std::vector<Line>& line)>;

/** Reduces the losses of all lines. An operand's part of a line is its row, the whole operand where
 *  all lines share it (weights), or its single element. */
Oracle reduced_lines(LineLoss f, Reduction r) {
  return [=](const std::vector<Array>& x) {
    Shape lines = x[0].shape;
    const std::int64_t length = lines.back();
    lines.erase(lines.rank() - 1);
    std::vector<double> losses;
    for (std::int64_t i = 0, n = checked_numel(lines, "oracle"); i < n; ++i) {
      std::vector<Line> parts;
      for (const Array& a : x) {
        const std::int64_t count = a.shape == x[0].shape ? length : a.numel() / n;
        const bool shared = a.numel() == length && n > 1 && !(a.shape == x[0].shape) &&
                            a.shape.rank() == 1 && a.numel() != n;
        Line part;
        for (std::int64_t c = 0; c < (shared ? length : count); ++c)
          part.push_back(a[shared ? c : i * count + c]);
        parts.push_back(part);
      }
      losses.push_back(f(parts));
    }
    const auto count = static_cast<double>(losses.size());
    return std::vector<Array>{reduced(losses, lines, r, count)};
  };
}

double dot(const Line& a, const Line& b) {
  double y = 0;
  for (std::size_t i = 0; i < a.size(); ++i) y += a[i] * b[i];
  return y;
}

double distance(const Line& u, const Line& v, double p) {
  double sum = 0, most = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    const double a = std::abs(u[i] - v[i] + 1e-6);
    sum += std::pow(a, p);
    most = std::max(most, a);
  }
  return std::isinf(p) ? most : std::pow(sum, 1 / p);
}

double log_sigmoid_of(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

/** Maps the integers 0 and 1 to -1 and 1. */
Tensor signs(const Tensor& zero_or_one, DType dtype) { return (zero_or_one * 2 - 1).to(dtype); }

const Operand kZeroOrOne{.low = 0, .high = 1, .integers = true};

void add_pairs() {
  for (const double margin : {0.5, 5.0})
    add_terms({"hinge_embedding_loss",
               mezzo::str("margin ", margin),
               [=](const auto& x, Reduction r) {
                 return hinge_embedding_loss(x[0], signs(x[1], x[0].dtype()),
                                             {.margin = margin, .reduction = r});
               },
               [=](const auto& v) { return v[1] == 1 ? v[0] : std::max(0.0, margin - v[0]); },
               {{.low = -2, .high = 2, .kinks = {0.5}}, kZeroOrOne}});
  add_terms({"hinge_embedding_loss",
             "other targets",
             [](const auto& x, Reduction r) {
               return hinge_embedding_loss(x[0], x[1], {.reduction = r});
             },
             [](const auto& v) { return v[0] + std::max(0.0, 1 - v[0]); },
             {{.low = -2, .high = 2, .kinks = {1}}, {.low = 0.1, .high = 0.6}}});
  add_terms(
      {"soft_margin_loss",
       "",
       [](const auto& x, Reduction r) { return soft_margin_loss(x[0], x[1], {.reduction = r}); },
       [](const auto& v) { return -log_sigmoid_of(v[0] * v[1]); },
       {{}, {}}});
  add_terms({"margin_ranking_loss",
             "violated",
             [](const auto& x, Reduction r) {
               return margin_ranking_loss(x[0], x[1], x[2], {.margin = 5, .reduction = r});
             },
             [](const auto& v) { return std::max(0.0, 5 - v[2] * (v[0] - v[1])); },
             {{.low = -1, .high = 1}, {.low = -1, .high = 1}, {.low = -1, .high = 1}},
             {{{3, 4}, {3, 4}, {3, 4}}, {{5}, {5}, {5}}, {{2, 3}, {2, 3}, {3}}}});
  add_terms({"margin_ranking_loss",
             "met",
             [](const auto& x, Reduction r) {
               return margin_ranking_loss(x[0], x[1], x[2], {.reduction = r});
             },
             [](const auto& v) { return std::max(0.0, -v[2] * (v[0] - v[1])); },
             {{.low = 1, .high = 2}, {.low = -1, .high = 0.5}, {.low = 0.5, .high = 1}},
             {{{3, 4}, {3, 4}, {3, 4}}, {{5}, {5}, {5}}, {{0, 3}, {0, 3}, {0, 3}}}});
}

void add_poisson() {
  for (const bool full : {false, true}) {
    const auto stirling = [full](double t) {
      return full && t > 1 ? t * std::log(t) - t + 0.5 * std::log(2 * std::acos(-1.0) * t) : 0.0;
    };
    add_terms({"poisson_nll_loss",
               full ? "full" : "",
               [=](const auto& x, Reduction r) {
                 return poisson_nll_loss(x[0], x[1], {.full = full, .reduction = r});
               },
               [=](const auto& v) { return std::exp(v[0]) - v[1] * v[0] + stirling(v[1]); },
               {{}, {.low = 0, .high = 5, .kinks = {1}}}});
    add_terms({"poisson_nll_loss",
               full ? "rates, full" : "rates",
               [=](const auto& x, Reduction r) {
                 return poisson_nll_loss(x[0], x[1],
                                         {.log_input = false, .full = full, .reduction = r});
               },
               [=](const auto& v) { return v[0] - v[1] * std::log(v[0] + 1e-8) + stirling(v[1]); },
               {{.low = 0.5, .high = 4}, {.low = 0, .high = 5, .kinks = {1}}}});
  }
}

using Shapes = std::vector<std::vector<Shape>>;

void add_lines(const char* op, const std::string& variant, LossCall call, LineLoss f,
               std::vector<Operand> operands, Shapes shapes) {
  for (const Reduction r : kReductions)
    add_case({.op = op,
              .variant = variant + ", " + text(r),
              .call = [=](const std::vector<Tensor>& x) { return std::vector<Tensor>{call(x, r)}; },
              .oracle = reduced_lines(f, r),
              .operands = operands,
              .shapes = shapes,
              .factor = 8});
}

void add_vectors() {
  for (const double p : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()})
    for (const bool swap : {false, true})
      add_lines(
          "triplet_margin_loss", mezzo::str("p ", p, swap ? ", swap" : ""),
          [=](const auto& x, Reduction r) {
            return triplet_margin_loss(x[0], x[1], x[2],
                                       {.margin = 9, .p = p, .swap = swap, .reduction = r});
          },
          [=](const auto& v) {
            double far = distance(v[0], v[2], p);
            if (swap) far = std::min(far, distance(v[1], v[2], p));
            return std::max(0.0, 9 + distance(v[0], v[1], p) - far);
          },
          {{.low = -2, .high = -1.2}, {.low = -0.5, .high = 0.5}, {.low = 1.2, .high = 2}},
          {{{3, 4}, {3, 4}, {3, 4}}, {{5}, {5}, {5}}, {{2, 2, 3}, {2, 2, 3}, {2, 2, 3}}});
  add_lines(
      "cosine_embedding_loss", "",
      [](const auto& x, Reduction r) {
        return cosine_embedding_loss(x[0], x[1], signs(x[2], x[0].dtype()),
                                     {.margin = 0.1, .reduction = r});
      },
      [](const auto& v) {
        const double cosine =
            dot(v[0], v[1]) / std::sqrt((dot(v[0], v[0]) + 1e-12) * (dot(v[1], v[1]) + 1e-12));
        return v[2][0] == 1 ? 1 - cosine : std::max(0.0, cosine - 0.1);
      },
      {{.low = 0.5, .high = 2}, {.low = 0.5, .high = 2}, kZeroOrOne},
      {{{3, 4}, {3, 4}, {3}}, {{5}, {5}, Shape{}}, {{2, 7}, {2, 7}, {2}}});
}

void add_classes() {
  for (const int p : {1, 2})
    add_lines(
        "multi_margin_loss", mezzo::str("p ", p),
        [=](const auto& x, Reduction r) {
          return multi_margin_loss(x[0], x[1], {.p = p, .margin = 7, .reduction = r});
        },
        [=](const auto& v) {
          const auto y = static_cast<std::size_t>(v[1][0]);
          double sum = 0;
          for (std::size_t c = 0; c < v[0].size(); ++c)
            if (c != y) sum += std::pow(std::max(0.0, 7 - v[0][y] + v[0][c]), p);
          return sum / static_cast<double>(v[0].size());
        },
        {{.low = -3, .high = 3}, {.low = 0, .high = 2, .integers = true}},
        {{{4, 3}, {4}}, {{5}, Shape{}}, {{2, 7}, {2}}});
  add_lines(
      "multi_margin_loss", "weighted",
      [](const auto& x, Reduction r) {
        return multi_margin_loss(x[0], x[1], {.p = 2, .margin = 7, .weight = x[2], .reduction = r});
      },
      [](const auto& v) {
        const auto y = static_cast<std::size_t>(v[1][0]);
        double sum = 0;
        for (std::size_t c = 0; c < v[0].size(); ++c)
          if (c != y) sum += std::pow(std::max(0.0, 7 - v[0][y] + v[0][c]), 2);
        return v[2][y] * sum / static_cast<double>(v[0].size());
      },
      {{.low = -3, .high = 3},
       {.low = 0, .high = 2, .integers = true},
       {.low = 0.25, .high = 2, .constant = true}},
      {{{4, 3}, {4}, {3}}, {{5}, Shape{}, {5}}, {{2, 7}, {2}, {7}}});
  add_lines(
      "multilabel_margin_loss", "",
      [](const auto& x, Reduction r) {
        return multilabel_margin_loss(x[0], x[1], {.reduction = r});
      },
      [](const auto& v) {
        const std::size_t classes = v[0].size();
        std::vector<bool> named(classes, false);
        for (std::size_t i = 0; i < classes && v[1][i] >= 0; ++i)
          named[static_cast<std::size_t>(v[1][i])] = true;
        double sum = 0;
        for (std::size_t y = 0; y < classes; ++y)
          for (std::size_t j = 0; j < classes; ++j)
            if (named[y] && !named[j]) sum += std::max(0.0, 1 - (v[0][y] - v[0][j]));
        return sum / static_cast<double>(classes);
      },
      {{.low = -1, .high = 1}, {.low = -1, .high = 2, .integers = true}},
      {{{6, 3}, {6, 3}}, {{5}, {5}}, {{4, 7}, {4, 7}}});
  const auto labels = [](const std::vector<Line>& v) {
    double sum = 0;
    for (std::size_t c = 0; c < v[0].size(); ++c)
      sum -= (v.size() > 2 ? v[2][c] : 1) *
             (v[1][c] * log_sigmoid_of(v[0][c]) + (1 - v[1][c]) * log_sigmoid_of(-v[0][c]));
    return sum / static_cast<double>(v[0].size());
  };
  add_lines("multilabel_soft_margin_loss", "",
            [](const auto& x, Reduction r) {
              return multilabel_soft_margin_loss(x[0], x[1], {.reduction = r});
            },
            labels, {{.low = -4, .high = 4}, {.low = 0, .high = 1}},
            {{{4, 3}, {4, 3}}, {{5}, {5}}, {{2, 2, 7}, {2, 2, 7}}});
  add_lines(
      "multilabel_soft_margin_loss", "weighted",
      [](const auto& x, Reduction r) {
        return multilabel_soft_margin_loss(x[0], x[1], {.weight = x[2], .reduction = r});
      },
      labels,
      {{.low = -4, .high = 4}, {.low = 0, .high = 1}, {.low = 0.25, .high = 2, .constant = true}},
      {{{4, 3}, {4, 3}, {3}}, {{5}, {5}, {5}}, {{2, 7}, {2, 7}, {7}}});
}

const Registrar additions([] {
  add_pairs();
  add_poisson();
  add_vectors();
  add_classes();
});

}  // namespace
