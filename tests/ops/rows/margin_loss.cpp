// Rows of the margin losses and of poisson_nll_loss.
#include <algorithm>
#include <limits>

#include "losses.h"

using namespace rows;
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

double line_distance(const Line& u, const Line& v, double p) {
  double sum = 0, most = 0;
  for (std::size_t i = 0; i < u.size(); ++i) {
    const double a = std::abs(u[i] - v[i] + 1e-6);
    sum += std::pow(a, p);
    most = std::max(most, a);
  }
  return std::isinf(p) ? most : std::pow(sum, 1 / p);
}

/** Maps the integers 0 and 1 to -1 and 1. */
Tensor signs(const Tensor& zero_or_one, DType dtype) { return (zero_or_one * 2 - 1).to(dtype); }

const Operand kZeroOrOne{.low = 0, .high = 1, .integers = true};

/** A function of one loss for each line. */
struct LineCase {
  std::string variant;
  LineLoss f;
  std::vector<Operand> operands;
  std::vector<std::vector<Shape>> shapes;
};

/** Adds a case for each reduction. */
template <class Options>
void test_line_losses(Row<Options>& row, const LineCase& c, const Options& options = {}) {
  for (const Reduction r : kReductions)
    row.test({.variant = c.variant + ", " + text(r),
              .oracle = reduced_lines(c.f, r),
              .operands = c.operands,
              .shapes = c.shapes,
              .factor = 8},
             with(options, r));
}

/** Calls whose integer targets 0 and 1 mean -1 and 1. */
template <class Options> Row<Options> of_signs(Row<Options> row, std::size_t target) {
  return {row.op(), [=](const Tensors& x, const Options& o) {
            Tensors with_signs = x;
            with_signs[target] = signs(x[target], x[0].dtype());
            return row.call()(with_signs, o);
          }};
}

const std::string kSigns = "given([[1., -1., 1., 1.], [-1., -1., 1., -1.], [1., 1., -1., -1.]])";

const Rows embedding_rows("loss", [] {
  auto hinge =
      LOSS(hinge_embedding_loss, HingeEmbeddingLossOptions)
          .fuzz(broadcasting(
              2, +[](double r) { return HingeEmbeddingLossOptions{.margin = r}; }))
          .golden({"margin", "F.hinge_embedding_loss(x0, x1, margin=0.4)", "real(3, 4), " + kSigns},
                  {.margin = 0.4});
  auto signed_hinge = of_signs(hinge, 1);
  for (const double margin : {0.5, 5.0})
    test_terms(signed_hinge,
               {mezzo::str("margin ", margin),
                [=](const auto& v) { return v[1] == 1 ? v[0] : std::max(0.0, margin - v[0]); },
                {{.low = -2, .high = 2, .kinks = {0.5}}, kZeroOrOne}},
               {.margin = margin});
  test_terms(hinge, {"other targets",
                     [](const auto& v) { return v[0] + std::max(0.0, 1 - v[0]); },
                     {{.low = -2, .high = 2, .kinks = {1}}, {.low = 0.1, .high = 0.6}}});
  golden_reductions(hinge, {"", "F.hinge_embedding_loss(x0, x1, ", "real(3, 4), " + kSigns});
  auto soft = LOSS(soft_margin_loss, SoftMarginLossOptions)
                  .fuzz(broadcasting(2, +[](double) { return SoftMarginLossOptions{}; }));
  test_terms(soft, {"", [](const auto& v) { return -log_sigmoid_of(v[0] * v[1]); }, {{}, {}}});
  golden_reductions(soft, {"", "F.soft_margin_loss(x0, x1, ", "real(3, 4), " + kSigns});
  auto ranking = row("margin_ranking_loss", CALL(margin_ranking_loss(x[0], x[1], x[2], o),
                                                 const MarginRankingLossOptions& o))
                     .fuzz(broadcasting(
                         3, +[](double r) { return MarginRankingLossOptions{.margin = r - 1}; }));
  test_terms(ranking,
             {"violated",
              [](const auto& v) { return std::max(0.0, 5 - v[2] * (v[0] - v[1])); },
              {{.low = -1, .high = 1}, {.low = -1, .high = 1}, {.low = -1, .high = 1}},
              {{{3, 4}, {3, 4}, {3, 4}}, {{5}, {5}, {5}}, {{2, 3}, {2, 3}, {3}}}},
             {.margin = 5});
  test_terms(ranking, {"met",
                       [](const auto& v) { return std::max(0.0, -v[2] * (v[0] - v[1])); },
                       {{.low = 1, .high = 2}, {.low = -1, .high = 0.5}, {.low = 0.5, .high = 1}},
                       {{{3, 4}, {3, 4}, {3, 4}}, {{5}, {5}, {5}}, {{0, 3}, {0, 3}, {0, 3}}}});
  golden_reductions(
      ranking,
      {"", "F.margin_ranking_loss(x0, x1, x2, margin=0.3, ", std::string(kPair) + ", " + kSigns},
      {.margin = 0.3});
});

const Rows poisson_rows("loss", [] {
  auto loss = LOSS(poisson_nll_loss, PoissonNllLossOptions)
                  .fuzz(broadcasting(
                      2,
                      +[](double r) {
                        return PoissonNllLossOptions{.log_input = r < 1, .full = r < 0.5, .eps = r};
                      }))
                  .golden({"full, rates",
                           "F.poisson_nll_loss(x0, x1, log_input=False, full=True, eps=1e-3)",
                           "positive(3, 4), constant(3, 4, low=0, high=4)"},
                          {.log_input = false, .full = true, .eps = 1e-3});
  for (const bool full : {false, true}) {
    const auto stirling = [full](double t) {
      return full && t > 1 ? t * std::log(t) - t + 0.5 * std::log(2 * std::acos(-1.0) * t) : 0.0;
    };
    test_terms(loss,
               {full ? "full" : "",
                [=](const auto& v) { return std::exp(v[0]) - v[1] * v[0] + stirling(v[1]); },
                {{}, {.low = 0, .high = 5, .kinks = {1}}}},
               {.full = full});
    test_terms(loss,
               {full ? "rates, full" : "rates",
                [=](const auto& v) { return v[0] - v[1] * std::log(v[0] + 1e-8) + stirling(v[1]); },
                {{.low = 0.5, .high = 4}, {.low = 0, .high = 5, .kinks = {1}}}},
               {.log_input = false, .full = full});
  }
  golden_reductions(
      loss, {"", "F.poisson_nll_loss(x0, x1, ", "real(3, 4), constant(3, 4, low=0, high=4)"});
});

const Rows vector_rows("loss", [] {
  auto triplets =
      row("triplet_margin_loss",
          CALL(triplet_margin_loss(x[0], x[1], x[2], o), const TripletMarginLossOptions& o))
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor a = d.floats(0, 3), b = d.tensor(d.like(a.shape()), a.dtype()),
                         c = d.tensor(d.like(a.shape()), a.dtype());
            const TripletMarginLossOptions options{d.real(0, 2), d.real(0, 3), d.real(0, 1),
                                                   d.flag(), draw_reduction(d)};
            auto shape = broadcast(broadcast(sizes(a), sizes(b)), sizes(c));
            if (shape && !shape->empty()) shape->pop_back();
            return Trial{call({a, b, c}, options), terms(shape, options.reduction)};
          })
          .golden({"options", "F.triplet_margin_loss(x0, x1, x2, margin=0.5, p=1, swap=True)",
                   "real(4, 3), real(4, 3), real(4, 3)"},
                  {.margin = 0.5, .p = 1, .swap = true});
  for (const double p : {1.0, 2.0, 3.0, std::numeric_limits<double>::infinity()})
    for (const bool swap : {false, true})
      test_line_losses(
          triplets,
          {mezzo::str("p ", p, swap ? ", swap" : ""),
           [=](const auto& v) {
             double far = line_distance(v[0], v[2], p);
             if (swap) far = std::min(far, line_distance(v[1], v[2], p));
             return std::max(0.0, 9 + line_distance(v[0], v[1], p) - far);
           },
           {{.low = -2, .high = -1.2}, {.low = -0.5, .high = 0.5}, {.low = 1.2, .high = 2}},
           {{{3, 4}, {3, 4}, {3, 4}}, {{5}, {5}, {5}}, {{2, 2, 3}, {2, 2, 3}, {2, 2, 3}}}},
          {.margin = 9, .p = p, .swap = swap});
  golden_reductions(
      triplets, {"", "F.triplet_margin_loss(x0, x1, x2, ", "real(4, 3), real(4, 3), real(4, 3)"});
  auto cosines = row("cosine_embedding_loss", CALL(cosine_embedding_loss(x[0], x[1], x[2], o),
                                                   const CosineEmbeddingLossOptions& o))
                     .fuzz([](FuzzDraw& d, const auto& call) {
                       const Tensor a = d.floats(1, 2), b = d.floats(d.like(a.shape()));
                       Shape places = a.shape();
                       places.erase(places.rank() - 1);
                       const Tensor target = d.tensor(d.like(places), DType::f32);
                       const Reduction how = draw_reduction(d);
                       const double margin = d.real();
                       Sizes each = sizes(a);
                       each.pop_back();
                       return Trial{call({a, b, target}, {margin, how}), terms(each, how)};
                     });
  auto signed_cosines = of_signs(cosines, 2);
  test_line_losses(signed_cosines,
                   {"",
                    [](const auto& v) {
                      const double cosine = dot(v[0], v[1]) / std::sqrt((dot(v[0], v[0]) + 1e-12) *
                                                                        (dot(v[1], v[1]) + 1e-12));
                      return v[2][0] == 1 ? 1 - cosine : std::max(0.0, cosine - 0.1);
                    },
                    {{.low = 0.5, .high = 2}, {.low = 0.5, .high = 2}, kZeroOrOne},
                    {{{3, 4}, {3, 4}, {3}}, {{5}, {5}, Shape{}}, {{2, 7}, {2, 7}, {2}}}},
                   {.margin = 0.1});
  golden_reductions(cosines,
                    {"", "F.cosine_embedding_loss(x0, x1, x2, margin=0.1, ",
                     "real(4, 3), real(4, 3), given([1, -1, -1, 1])"},
                    {.margin = 0.1});
});

const Rows class_margin_rows("loss", [] {
  auto margins = WEIGHTED_LOSS(multi_margin_loss, MultiMarginLossOptions)
                     .fuzz([](FuzzDraw& d, const auto& call) {
                       const Classified c = classified(d, 2);
                       const MultiMarginLossOptions options{
                           static_cast<int>(1 + d.below(3)), d.real(0, 2), {}, c.how};
                       Sizes places = sizes(c.x);
                       places.pop_back();
                       return Trial{call({c.x, c.target, c.weight}, options), terms(places, c.how)};
                     })
                     .golden({"options", "F.multi_margin_loss(x0, x1, 2, 0.5, x2)",
                              "real(4, 3), whole(4, high=2), constant(3, low=.2, high=2)"},
                             {.p = 2, .margin = 0.5});
  const auto violations = [](const Line& scores, std::size_t y, int p) {
    double sum = 0;
    for (std::size_t c = 0; c < scores.size(); ++c)
      if (c != y) sum += std::pow(std::max(0.0, 7 - scores[y] + scores[c]), p);
    return sum / static_cast<double>(scores.size());
  };
  const Operand scores{.low = -3, .high = 3}, targets{.low = 0, .high = 2, .integers = true},
      weights{.low = 0.25, .high = 2, .constant = true};
  for (const int p : {1, 2})
    test_line_losses(
        margins,
        {mezzo::str("p ", p),
         [=](const auto& v) { return violations(v[0], static_cast<std::size_t>(v[1][0]), p); },
         {scores, targets},
         {{{4, 3}, {4}}, {{5}, Shape{}}, {{2, 7}, {2}}}},
        {.p = p, .margin = 7});
  test_line_losses(margins,
                   {"weighted",
                    [=](const auto& v) {
                      const auto y = static_cast<std::size_t>(v[1][0]);
                      return v[2][y] * violations(v[0], y, 2);
                    },
                    {scores, targets, weights},
                    {{{4, 3}, {4}, {3}}, {{5}, Shape{}, {5}}, {{2, 7}, {2}, {7}}}},
                   {.p = 2, .margin = 7});
  golden_reductions(margins, {"", "F.multi_margin_loss(x0, x1, ", "real(4, 3), whole(4, high=2)"});
  auto labelled = LOSS(multilabel_margin_loss, MultilabelMarginLossOptions)
                      .fuzz([](FuzzDraw& d, const auto& call) {
                        const Tensor x = d.floats(1, 2),
                                     target = d.index(d.like(x.shape()), x.size(-1));
                        const Reduction how = draw_reduction(d);
                        Sizes places = sizes(x);
                        places.pop_back();
                        return Trial{call({x, target}, {how}), terms(places, how)};
                      });
  test_line_losses(labelled, {"",
                              [](const auto& v) {
                                const std::size_t classes = v[0].size();
                                std::vector<bool> named(classes, false);
                                for (std::size_t i = 0; i < classes && v[1][i] >= 0; ++i)
                                  named[static_cast<std::size_t>(v[1][i])] = true;
                                double sum = 0;
                                for (std::size_t y = 0; y < classes; ++y)
                                  for (std::size_t j = 0; j < classes; ++j)
                                    if (named[y] && !named[j])
                                      sum += std::max(0.0, 1 - (v[0][y] - v[0][j]));
                                return sum / static_cast<double>(classes);
                              },
                              {{.low = -1, .high = 1}, {.low = -1, .high = 2, .integers = true}},
                              {{{6, 3}, {6, 3}}, {{5}, {5}}, {{4, 7}, {4, 7}}}});
  golden_reductions(labelled, {"", "F.multilabel_margin_loss(x0, x1, ",
                               "real(3, 4), given([[2, 0, -1, 1], [-1, 0, 1, 2], [3, 1, 0, -1]])"});
  auto soft =
      WEIGHTED_LOSS(multilabel_soft_margin_loss, MultilabelSoftMarginLossOptions)
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor x = d.floats(0, 3), y = d.tensor(d.like(x.shape()), x.dtype());
            const Reduction how = draw_reduction(d);
            const auto whole = broadcast(sizes(x), sizes(y));
            return Trial{call({x, y}, {.reduction = how}),
                         whole && how == Reduction::none && !whole->empty()
                             ? gives(reduced(*whole, {-1}, false))
                             : terms(whole, how)};
          })
          .golden({"weight", "F.multilabel_soft_margin_loss",
                   "real(3, 4), constant(3, 4, low=0, high=1), constant(4, low=.2, high=2)"});
  const auto labels = [](const std::vector<Line>& v) {
    double sum = 0;
    for (std::size_t c = 0; c < v[0].size(); ++c)
      sum -= (v.size() > 2 ? v[2][c] : 1) *
             (v[1][c] * log_sigmoid_of(v[0][c]) + (1 - v[1][c]) * log_sigmoid_of(-v[0][c]));
    return sum / static_cast<double>(v[0].size());
  };
  const Operand logits{.low = -4, .high = 4}, shares{.low = 0, .high = 1};
  test_line_losses(
      soft, {"", labels, {logits, shares}, {{{4, 3}, {4, 3}}, {{5}, {5}}, {{2, 2, 7}, {2, 2, 7}}}});
  test_line_losses(soft, {"weighted",
                          labels,
                          {logits, shares, weights},
                          {{{4, 3}, {4, 3}, {3}}, {{5}, {5}, {5}}, {{2, 7}, {2, 7}, {7}}}});
  golden_reductions(soft, {"", "F.multilabel_soft_margin_loss(x0, x1, ",
                           "real(3, 4), constant(3, 4, low=0, high=1)"});
});

}  // namespace
