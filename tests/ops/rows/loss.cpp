// Rows of the losses.
#include <algorithm>
#include <string>

#include "losses.h"
#include "smoke_lines.h"

using namespace rows;
using namespace mezzo;

namespace {

/** The layout of an array of scores: [samples][classes][positions]. */
struct ClassLayout {
  std::int64_t outer = 1, classes = 1, inner = 1;
  explicit ClassLayout(const Shape& x) {
    const int dim = x.rank() == 1 ? 0 : 1;
    for (int i = 0; i < x.rank(); ++i) (i < dim ? outer : i == dim ? classes : inner) *= x[i];
  }
  std::int64_t lines() const { return outer * inner; }
  std::int64_t at(std::int64_t line, std::int64_t c) const {
    return (line / inner * classes + c) * inner + line % inner;
  }
};

std::vector<double> log_softmax_of(const Array& x, const ClassLayout& l, std::int64_t line) {
  double sum = 0;
  for (std::int64_t c = 0; c < l.classes; ++c) sum += std::exp(x[l.at(line, c)]);
  std::vector<double> y;
  for (std::int64_t c = 0; c < l.classes; ++c) y.push_back(x[l.at(line, c)] - std::log(sum));
  return y;
}

Shape without_classes(Shape x) {
  x.erase(x.rank() == 1 ? 0 : 1);
  return x;
}

// ---- cross entropy ------------------------------------------------------------------------------

/** x[1]: target indices; x[2]: class weights, if any. */
Oracle cross_entropy_of_indices(const CrossEntropyOptions& o) {
  return [o](const std::vector<Array>& x) {
    const ClassLayout l(x[0].shape);
    const auto weight = [&](std::int64_t c) { return x.size() > 2 ? x[2][c] : 1; };
    std::vector<double> losses;
    double divisor = 0;
    for (std::int64_t line = 0; line < l.lines(); ++line) {
      const auto target = static_cast<std::int64_t>(x[1][line]);
      losses.push_back(0);
      if (target == o.ignore_index) continue;
      const std::vector<double> logp = log_softmax_of(x[0], l, line);
      divisor += weight(target);
      for (std::int64_t c = 0; c < l.classes; ++c) {
        const double q = (c == target ? 1 - o.label_smoothing : 0) +
                         o.label_smoothing / static_cast<double>(l.classes);
        losses.back() -= q * weight(c) * logp[static_cast<std::size_t>(c)];
      }
    }
    return std::vector<Array>{reduced(losses, x[1].shape, o.reduction, divisor)};
  };
}

/** x[1]: class probabilities. */
Oracle cross_entropy_of_probabilities(const CrossEntropyOptions& o) {
  return [o](const std::vector<Array>& x) {
    const ClassLayout l(x[0].shape);
    std::vector<double> losses;
    for (std::int64_t line = 0; line < l.lines(); ++line) {
      const std::vector<double> logp = log_softmax_of(x[0], l, line);
      losses.push_back(0);
      for (std::int64_t c = 0; c < l.classes; ++c) {
        const double q = x[1][l.at(line, c)] * (1 - o.label_smoothing) +
                         o.label_smoothing / static_cast<double>(l.classes);
        losses.back() -= q * (x.size() > 2 ? x[2][c] : 1) * logp[static_cast<std::size_t>(c)];
      }
    }
    return std::vector<Array>{
        reduced(losses, without_classes(x[0].shape), o.reduction, static_cast<double>(l.lines()))};
  };
}

const Operand kScores{.low = -3, .high = 3};
const Operand kTargets{.low = 0, .high = 2, .integers = true};
const Operand kClassWeights{.low = 0.25, .high = 2};
const std::vector<std::vector<Shape>> kClassShapes = {
    {{4, 3}, {4}},  {{3}, Shape{}},        {{2, 3, 5}, {2, 5}}, {{2, 3, 2, 3}, {2, 2, 3}},
    {{7, 19}, {7}}, {{1, 3, 20}, {1, 20}}, {{0, 3}, {0}},       {{2, 3, 0}, {2, 0}}};

/** Returns the shapes with a third operand: one number per class. */
std::vector<std::vector<Shape>> with_weights(std::vector<std::vector<Shape>> shapes) {
  for (std::vector<Shape>& s : shapes) s.push_back({s[0][s[0].rank() == 1 ? 0 : 1]});
  return shapes;
}

void test_cross_entropy(Row<CrossEntropyOptions>& row, const std::string& variant,
                        const CrossEntropyOptions& o, bool probabilities, bool weights) {
  std::vector<Operand> operands{kScores, probabilities ? Operand{.low = 0, .high = 1} : kTargets};
  std::vector<std::vector<Shape>> shapes = kClassShapes;
  if (probabilities)
    for (std::vector<Shape>& s : shapes) s[1] = s[0];
  if (weights) {
    shapes = with_weights(shapes);
    operands.push_back(kClassWeights);
    operands.back().constant = true;
  }
  row.test(
      {.variant = variant + ", " + text(o.reduction),
       .oracle = probabilities ? cross_entropy_of_probabilities(o) : cross_entropy_of_indices(o),
       .operands = operands,
       .shapes = shapes,
       .factor = 4},
      o);
}

// ---- nll ----------------------------------------------------------------------------------------

Oracle nll_of(const NllLossOptions& o) {
  return [o](const std::vector<Array>& x) {
    const ClassLayout l(x[0].shape);
    std::vector<double> losses;
    double divisor = 0;
    for (std::int64_t line = 0; line < l.lines(); ++line) {
      const auto target = static_cast<std::int64_t>(x[1][line]);
      losses.push_back(0);
      if (target == o.ignore_index) continue;
      const double weight = x.size() > 2 ? x[2][target] : 1;
      divisor += weight;
      losses.back() = -weight * x[0][l.at(line, target)];
    }
    return std::vector<Array>{reduced(losses, x[1].shape, o.reduction, divisor)};
  };
}

void test_nll(Row<NllLossOptions>& row, const std::string& variant, const NllLossOptions& o,
              bool weights) {
  std::vector<Operand> operands{kScores, kTargets};
  if (weights) {
    operands.push_back(kClassWeights);
    operands.back().constant = true;
  }
  row.test({.variant = variant + ", " + text(o.reduction),
            .oracle = nll_of(o),
            .operands = operands,
            .shapes = weights ? with_weights(kClassShapes) : kClassShapes,
            .factor = 2},
           o);
}

// ---- element by element -------------------------------------------------------------------------

double square(double x) { return x * x; }

/** Far enough apart that no difference is near a kink. */
const Operand kLow{.low = -2, .high = -0.6}, kHigh{.low = 0.5, .high = 2};
const Operand kProbabilities{.low = 0.05, .high = 0.95};
const Operand kConstant{.low = 0.25, .high = 3, .constant = true};

template <class Options> Options plain(double) { return {}; }

const char* const kProbable = "real(3, 4, low=.05, high=.95), constant(3, 4, low=0, high=1)";

const Rows class_rows("loss", [] {
  auto entropy =
      WEIGHTED_LOSS(cross_entropy, CrossEntropyOptions)
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Classified c = classified(d, 4);
            const CrossEntropyOptions options{{}, c.ignore_index, c.how, c.smoothing};
            const bool by_probability = d.chance(0.2);
            const Tensor target =
                by_probability ? d.tensor(d.like(c.x.shape()), c.x.dtype()) : c.target;
            return Trial{call({c.x, target, c.weight}, options), terms(places_of(c.x), c.how)};
          })
          .golden({"one sample", "F.cross_entropy", "real(3), given(2)"});
  golden_reductions(entropy, {"", "F.cross_entropy(x0, x1, ", "real(4, 3), whole(4, high=2)"});
  golden_reductions(
      entropy,
      {"weighted", "F.cross_entropy(x0, x1, x2, ignore_index=1, label_smoothing=0.2, ",
       "real(2, 3, 5), whole(2, 5, high=2), constant(3, low=.2, high=2)"},
      {.ignore_index = 1, .label_smoothing = 0.2});
  golden_reductions(entropy,
                    {"probabilities", "F.cross_entropy(x0, x1, x2, label_smoothing=0.1, ",
                     "real(4, 3), constant(4, 3, low=0, high=1), constant(3, low=.2, high=2)"},
                    {.label_smoothing = 0.1});
  auto nll = WEIGHTED_LOSS(nll_loss, NllLossOptions).fuzz([](FuzzDraw& d, const auto& call) {
    const Classified c = classified(d, 4);
    return Trial{call({c.x, c.target, c.weight}, {{}, c.ignore_index, c.how}),
                 terms(places_of(c.x), c.how)};
  });
  golden_reductions(nll, {"", "F.nll_loss(x0, x1, ", "real(4, 3), whole(4, high=2)"});
  golden_reductions(nll,
                    {"weighted", "F.nll_loss(x0, x1, x2, ignore_index=0, ",
                     "real(2, 3, 5), whole(2, 5, high=2), constant(3, low=.2, high=2)"},
                    {.ignore_index = 0});
  for (const Reduction r : kReductions) {
    test_cross_entropy(entropy, "indices", {.reduction = r}, false, false);
    test_cross_entropy(entropy, "indices, weighted", {.reduction = r}, false, true);
    test_cross_entropy(entropy, "one class ignored", {.ignore_index = 1, .reduction = r}, false,
                       false);
    test_cross_entropy(entropy, "smoothed", {.reduction = r, .label_smoothing = 0.2}, false, false);
    test_cross_entropy(entropy, "smoothed, weighted, one class ignored",
                       {.ignore_index = 0, .reduction = r, .label_smoothing = 0.3}, false, true);
    test_cross_entropy(entropy, "probabilities", {.reduction = r}, true, false);
    test_nll(nll, "plain", {.reduction = r}, false);
    test_nll(nll, "weighted, one class ignored", {.ignore_index = 2, .reduction = r}, true);
    test_cross_entropy(entropy, "probabilities, smoothed, weighted",
                       {.reduction = r, .label_smoothing = 0.1}, true, true);
  }
  for (const bool backward : {false, true})
    entropy.smoke({.name = backward ? "cross_entropy % backward" : "cross_entropy % forward",
                   .dtypes = kShortFloats,
                   .operands =
                       [](const Maker& make, DType dtype) {
                         const std::int64_t count = make.pick(6, 100, 8192),
                                            of_classes = make.pick(40, 3000, 50304);
                         return Tensors{make.normal({count, of_classes}, dtype),
                                        make.indices(of_classes, {count})};
                       },
                   .passes = backward ? 2.0 : 1.0,
                   .backward = backward});
});

const Rows error_rows("loss", [] {
  auto squares = LOSS(mse_loss, LossOptions).fuzz(broadcasting(2, plain<LossOptions>));
  test_terms(squares, {"", [](const auto& v) { return square(v[0] - v[1]); }, {{}, {}}});
  golden_reductions(squares, {"", "F.mse_loss(x0, x1, ", kPair});
  auto absolute = LOSS(l1_loss, LossOptions).fuzz(broadcasting(2, plain<LossOptions>));
  const auto distance = [](const auto& v) { return std::abs(v[0] - v[1]); };
  test_terms(absolute, {"below", distance, {kLow, kHigh}});
  test_terms(absolute, {"above", distance, {kHigh, kLow}});
  golden_reductions(absolute, {"", "F.l1_loss(x0, x1, ", kPair});
  auto smooth = LOSS(smooth_l1_loss, SmoothL1LossOptions)
                    .fuzz(broadcasting(
                        2, +[](double r) { return SmoothL1LossOptions{.beta = r}; }))
                    .golden({"beta", "F.smooth_l1_loss(x0, x1, beta=0.3)", kPair}, {.beta = 0.3});
  for (const double beta : {0.0, 0.5, 10.0})
    for (const bool below : {false, true})
      test_terms(smooth,
                 {mezzo::str(below ? "below, beta " : "above, beta ", beta),
                  [=](const auto& v) {
                    const double a = std::abs(v[0] - v[1]);
                    return a < beta ? a * a / (2 * beta) : a - beta / 2;
                  },
                  {below ? kLow : kHigh, below ? kHigh : kLow}},
                 {.beta = beta});
  golden_reductions(smooth, {"", "F.smooth_l1_loss(x0, x1, ", kPair});
  auto huber = LOSS(huber_loss, HuberLossOptions)
                   .fuzz(broadcasting(
                       2, +[](double r) { return HuberLossOptions{.delta = r}; }))
                   .golden({"delta", "F.huber_loss(x0, x1, delta=0.3)", kPair}, {.delta = 0.3});
  for (const double delta : {0.5, 10.0})
    for (const bool below : {false, true})
      test_terms(huber,
                 {mezzo::str(below ? "below, delta " : "above, delta ", delta),
                  [=](const auto& v) {
                    const double a = std::abs(v[0] - v[1]);
                    return a <= delta ? a * a / 2 : delta * (a - delta / 2);
                  },
                  {below ? kLow : kHigh, below ? kHigh : kLow}},
                 {.delta = delta});
  golden_reductions(huber, {"", "F.huber_loss(x0, x1, ", kPair});
});

const Rows entropy_rows("loss", [] {
  auto of_probabilities = WEIGHTED_LOSS(binary_cross_entropy, BinaryCrossEntropyOptions)
                              .fuzz(broadcasting(2, plain<BinaryCrossEntropyOptions>))
                              .golden({"weight", "F.binary_cross_entropy",
                                       std::string(kProbable) + ", constant(4, low=.2, high=2)"})
                              .golden({"ends", "F.binary_cross_entropy",
                                       "given([0., 1., 0., 1.]), given([0., 1., 1., 0.])"});
  test_terms(of_probabilities, {"",
                                [](const auto& v) {
                                  return -(v[1] * std::log(v[0]) + (1 - v[1]) * std::log1p(-v[0]));
                                },
                                {kProbabilities, kProbabilities}});
  test_terms(of_probabilities,
             {"weighted",
              [](const auto& v) {
                return -v[2] * (v[1] * std::log(v[0]) + (1 - v[1]) * std::log1p(-v[0]));
              },
              {kProbabilities, kProbabilities, kConstant},
              {{{3, 4}, {3, 4}, {4}}, {{5}, {5}, {5}}, {{2, 3}, {2, 3}, Shape{}}}});
  golden_reductions(of_probabilities, {"", "F.binary_cross_entropy(x0, x1, ", kProbable});
  using LogitOptions = BinaryCrossEntropyWithLogitsOptions;
  auto of_logits =
      row("binary_cross_entropy_with_logits",
          [](const Tensors& x, LogitOptions o) {
            o.weight = optional(x, 2);
            o.pos_weight = optional(x, 3);
            return Tensors{binary_cross_entropy_with_logits(x[0], x[1], o)};
          })
          .fuzz(broadcasting(2, plain<LogitOptions>))
          .golden({"weights", "F.binary_cross_entropy_with_logits(x0, x1, x2, pos_weight=x3)",
                   "real(3, 4), constant(3, 4, low=0, high=1), constant(4, low=.2, high=2), "
                   "constant(4, low=.2, high=2)"});
  const Operand logits{.low = -6, .high = 6};
  test_terms(of_logits, {"",
                         [](const auto& v) { return (1 - v[1]) * v[0] - log_sigmoid_of(v[0]); },
                         {logits, kProbabilities}});
  test_terms(of_logits,
             {"weighted",
              [](const auto& v) {
                return v[2] * ((1 - v[1]) * v[0] - (1 + (v[3] - 1) * v[1]) * log_sigmoid_of(v[0]));
              },
              {logits, kProbabilities, kConstant, kConstant},
              {{{3, 4}, {3, 4}, {3, 4}, {4}},
               {{5}, {5}, Shape{}, {5}},
               {{2, 3, 2}, {2, 3, 2}, {3, 1}, {3, 2}}}});
  golden_reductions(of_logits, {"", "F.binary_cross_entropy_with_logits(x0, x1, ",
                                "real(3, 4), constant(3, 4, low=0, high=1)"});
  auto positives = row("binary_cross_entropy_with_logits", [](const Tensors& x, LogitOptions o) {
    o.pos_weight = x[2];
    return Tensors{binary_cross_entropy_with_logits(x[0], x[1], o)};
  });
  test_terms(positives, {"positives weighted",
                         [](const auto& v) {
                           return (1 - v[1]) * v[0] -
                                  (1 + (v[2] - 1) * v[1]) * log_sigmoid_of(v[0]);
                         },
                         {logits, kProbabilities, kConstant},
                         {{{3, 4}, {3, 4}, {4}}, {{5}, {5}, {5}}, {{2, 3}, {2, 3}, {2, 1}}}});
  auto divergence =
      LOSS(kl_div, KlDivOptions)
          .test(
              {.variant = "batchmean",
               .oracle = reduced_terms([](const auto& v) { return v[1] * (std::log(v[1]) - v[0]); },
                                       Reduction::batchmean),
               .operands = {{}, {.low = 0.1, .high = 1}},
               .shapes = {{{3, 4}, {3, 4}}, {{5}, {5}}, {{2, 3, 2}, {2, 3, 2}}},
               .factor = 4},
              {.reduction = Reduction::batchmean})
          .fuzz(broadcasting(
              2, +[](double r) { return KlDivOptions{.log_target = r < 1}; }))
          .golden({"log target", "F.kl_div(x0, x1, log_target=True, reduction='batchmean')",
                   "real(3, 4, low=-4, high=-.1), real(3, 4, low=-4, high=-.1)"},
                  {.reduction = Reduction::batchmean, .log_target = true});
  test_terms(divergence, {"",
                          [](const auto& v) { return v[1] * (std::log(v[1]) - v[0]); },
                          {{}, {.low = 0.04, .high = 1}}});
  test_terms(divergence,
             {"log target", [](const auto& v) { return std::exp(v[1]) * (v[1] - v[0]); }, {{}, {}}},
             {.log_target = true});
  golden_reductions(divergence, {"", "F.kl_div(x0, x1, ",
                                 "real(3, 4, low=-4, high=-.1), real(3, 4, low=.05, high=.95)"});
});

}  // namespace
