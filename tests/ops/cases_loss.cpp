// Cases of the losses.
#include <algorithm>
#include <string>

#include "loss_oracle.h"

using namespace cases;
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

CrossEntropyOptions weighted(CrossEntropyOptions o, const std::vector<Tensor>& x) {
  if (x.size() > 2) o.weight = x[2];
  return o;
}

void add_cross_entropy(const std::string& variant, const CrossEntropyOptions& o, bool probabilities,
                       bool weights) {
  std::vector<Operand> operands{kScores, probabilities ? Operand{.low = 0, .high = 1} : kTargets};
  std::vector<std::vector<Shape>> shapes = kClassShapes;
  if (probabilities)
    for (std::vector<Shape>& s : shapes) s[1] = s[0];
  if (weights) {
    shapes = with_weights(shapes);
    operands.push_back(kClassWeights);
    operands.back().constant = true;
  }
  add_case(
      {.op = "cross_entropy",
       .variant = variant + ", " + text(o.reduction),
       .call =
           [o](const std::vector<Tensor>& x) {
             return std::vector<Tensor>{cross_entropy(x[0], x[1], weighted(o, x))};
           },
       .oracle = probabilities ? cross_entropy_of_probabilities(o) : cross_entropy_of_indices(o),
       .operands = operands,
       .shapes = shapes,
       .factor = 4});
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

void add_nll(const std::string& variant, const NllLossOptions& o, bool weights) {
  std::vector<Operand> operands{kScores, kTargets};
  std::vector<std::vector<Shape>> shapes = weights ? with_weights(kClassShapes) : kClassShapes;
  if (weights) {
    operands.push_back(kClassWeights);
    operands.back().constant = true;
  }
  add_case({.op = "nll_loss",
            .variant = variant + ", " + text(o.reduction),
            .call =
                [o](const std::vector<Tensor>& x) {
                  NllLossOptions with = o;
                  if (x.size() > 2) with.weight = x[2];
                  return std::vector<Tensor>{nll_loss(x[0], x[1], with)};
                },
            .oracle = nll_of(o),
            .operands = operands,
            .shapes = shapes,
            .factor = 2});
}

// ---- element by element -------------------------------------------------------------------------

double square(double x) { return x * x; }
double log_sigmoid_of(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

/** Far enough apart that no difference is near a kink. */
const Operand kLow{.low = -2, .high = -0.6}, kHigh{.low = 0.5, .high = 2};
const Operand kProbabilities{.low = 0.05, .high = 0.95};
const Operand kConstant{.low = 0.25, .high = 3, .constant = true};

void add_errors() {
  add_terms({"mse_loss",
             "",
             [](const auto& x, Reduction r) { return mse_loss(x[0], x[1], {.reduction = r}); },
             [](const auto& v) { return square(v[0] - v[1]); },
             {{}, {}}});
  add_terms({"l1_loss",
             "below",
             [](const auto& x, Reduction r) { return l1_loss(x[0], x[1], {.reduction = r}); },
             [](const auto& v) { return std::abs(v[0] - v[1]); },
             {kLow, kHigh}});
  add_terms({"l1_loss",
             "above",
             [](const auto& x, Reduction r) { return l1_loss(x[0], x[1], {.reduction = r}); },
             [](const auto& v) { return std::abs(v[0] - v[1]); },
             {kHigh, kLow}});
  for (const double beta : {0.0, 0.5, 10.0})
    for (const bool below : {false, true})
      add_terms({"smooth_l1_loss",
                 mezzo::str(below ? "below, beta " : "above, beta ", beta),
                 [=](const auto& x, Reduction r) {
                   return smooth_l1_loss(x[0], x[1], {.reduction = r, .beta = beta});
                 },
                 [=](const auto& v) {
                   const double a = std::abs(v[0] - v[1]);
                   return a < beta ? a * a / (2 * beta) : a - beta / 2;
                 },
                 {below ? kLow : kHigh, below ? kHigh : kLow}});
  for (const double delta : {0.5, 10.0})
    for (const bool below : {false, true})
      add_terms({"huber_loss",
                 mezzo::str(below ? "below, delta " : "above, delta ", delta),
                 [=](const auto& x, Reduction r) {
                   return huber_loss(x[0], x[1], {.reduction = r, .delta = delta});
                 },
                 [=](const auto& v) {
                   const double a = std::abs(v[0] - v[1]);
                   return a <= delta ? a * a / 2 : delta * (a - delta / 2);
                 },
                 {below ? kLow : kHigh, below ? kHigh : kLow}});
}

void add_entropies() {
  add_terms(
      {"binary_cross_entropy",
       "",
       [](const auto& x, Reduction r) {
         return binary_cross_entropy(x[0], x[1], {.reduction = r});
       },
       [](const auto& v) { return -(v[1] * std::log(v[0]) + (1 - v[1]) * std::log1p(-v[0])); },
       {kProbabilities, kProbabilities}});
  add_terms({"binary_cross_entropy",
             "weighted",
             [](const auto& x, Reduction r) {
               return binary_cross_entropy(x[0], x[1], {.weight = x[2], .reduction = r});
             },
             [](const auto& v) {
               return -v[2] * (v[1] * std::log(v[0]) + (1 - v[1]) * std::log1p(-v[0]));
             },
             {kProbabilities, kProbabilities, kConstant},
             {{{3, 4}, {3, 4}, {4}}, {{5}, {5}, {5}}, {{2, 3}, {2, 3}, Shape{}}}});
  add_terms({"binary_cross_entropy_with_logits",
             "",
             [](const auto& x, Reduction r) {
               return binary_cross_entropy_with_logits(x[0], x[1], {.reduction = r});
             },
             [](const auto& v) { return (1 - v[1]) * v[0] - log_sigmoid_of(v[0]); },
             {{.low = -6, .high = 6}, kProbabilities}});
  add_terms({"binary_cross_entropy_with_logits",
             "weighted",
             [](const auto& x, Reduction r) {
               return binary_cross_entropy_with_logits(
                   x[0], x[1], {.weight = x[2], .reduction = r, .pos_weight = x[3]});
             },
             [](const auto& v) {
               return v[2] * ((1 - v[1]) * v[0] - (1 + (v[3] - 1) * v[1]) * log_sigmoid_of(v[0]));
             },
             {{.low = -6, .high = 6}, kProbabilities, kConstant, kConstant},
             {{{3, 4}, {3, 4}, {3, 4}, {4}},
              {{5}, {5}, Shape{}, {5}},
              {{2, 3, 2}, {2, 3, 2}, {3, 1}, {3, 2}}}});
  add_terms({"binary_cross_entropy_with_logits",
             "positives weighted",
             [](const auto& x, Reduction r) {
               return binary_cross_entropy_with_logits(x[0], x[1],
                                                       {.reduction = r, .pos_weight = x[2]});
             },
             [](const auto& v) {
               return (1 - v[1]) * v[0] - (1 + (v[2] - 1) * v[1]) * log_sigmoid_of(v[0]);
             },
             {{.low = -6, .high = 6}, kProbabilities, kConstant},
             {{{3, 4}, {3, 4}, {4}}, {{5}, {5}, {5}}, {{2, 3}, {2, 3}, {2, 1}}}});
  add_terms({"kl_div",
             "",
             [](const auto& x, Reduction r) { return kl_div(x[0], x[1], {.reduction = r}); },
             [](const auto& v) { return v[1] * (std::log(v[1]) - v[0]); },
             {{}, {.low = 0.04, .high = 1}}});
  add_terms({"kl_div",
             "log target",
             [](const auto& x, Reduction r) {
               return kl_div(x[0], x[1], {.reduction = r, .log_target = true});
             },
             [](const auto& v) { return std::exp(v[1]) * (v[1] - v[0]); },
             {{}, {}}});
  add_case({.op = "kl_div",
            .variant = "batchmean",
            .call = CALL(kl_div(x[0], x[1], {.reduction = Reduction::batchmean})),
            .oracle = reduced_terms([](const auto& v) { return v[1] * (std::log(v[1]) - v[0]); },
                                    Reduction::batchmean),
            .operands = {{}, {.low = 0.1, .high = 1}},
            .shapes = {{{3, 4}, {3, 4}}, {{5}, {5}}, {{2, 3, 2}, {2, 3, 2}}},
            .factor = 4});
}

const Registrar additions([] {
  for (const Reduction r : kReductions) {
    add_cross_entropy("indices", {.reduction = r}, false, false);
    add_cross_entropy("indices, weighted", {.reduction = r}, false, true);
    add_cross_entropy("one class ignored", {.ignore_index = 1, .reduction = r}, false, false);
    add_cross_entropy("smoothed", {.reduction = r, .label_smoothing = 0.2}, false, false);
    add_cross_entropy("smoothed, weighted, one class ignored",
                      {.ignore_index = 0, .reduction = r, .label_smoothing = 0.3}, false, true);
    add_cross_entropy("probabilities", {.reduction = r}, true, false);
    add_nll("plain", {.reduction = r}, false);
    add_nll("weighted, one class ignored", {.ignore_index = 2, .reduction = r}, true);
    add_cross_entropy("probabilities, smoothed, weighted", {.reduction = r, .label_smoothing = 0.1},
                      true, true);
  }
  add_errors();
  add_entropies();
});

}  // namespace
