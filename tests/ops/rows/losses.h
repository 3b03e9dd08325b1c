// Rows of losses: oracles that reduce terms, and cases for every reduction.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "../row.h"

namespace rows {

using cases::broadcast_at;
using mezzo::Reduction;

/** The operands of most golden cases. */
inline constexpr const char* kPair = "real(3, 4), real(3, 4)";

inline double log_sigmoid_of(double x) {
  return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
}

inline Array reduced(std::vector<double> losses, const Shape& shape, Reduction reduction,
                     double divisor) {
  if (reduction == Reduction::none) return {shape, std::move(losses)};
  double total = 0;
  for (const double v : losses) total += v;
  return {Shape{}, {reduction == Reduction::mean ? total / divisor : total}};
}

inline const char* text(Reduction r) {
  return r == Reduction::none ? "none" : r == Reduction::sum ? "sum" : "mean";
}

inline constexpr Reduction kReductions[] = {Reduction::none, Reduction::sum, Reduction::mean};

using Term = std::function<double(const std::vector<double>& operands)>;
/** The oracle of one term per element of the shape that prediction and target broadcast to. */
inline Oracle reduced_terms(const Term& term, Reduction reduction) {
  return [=](const std::vector<Array>& x) {
    const Shape shape = mezzo::broadcast_shapes(x[0].shape, x[1].shape, "oracle");
    std::vector<double> losses;
    for (std::int64_t i = 0, n = mezzo::checked_numel(shape, "oracle"); i < n; ++i) {
      std::vector<double> operands;
      for (const Array& a : x) operands.push_back(broadcast_at(a, shape, i));
      losses.push_back(term(operands));
    }
    const auto count = static_cast<double>(losses.size());
    if (reduction == Reduction::batchmean)
      return std::vector<Array>{
          reduced(losses, shape, Reduction::mean, static_cast<double>(shape[0]))};
    return std::vector<Array>{reduced(losses, shape, reduction, count)};
  };
}

inline const std::vector<std::vector<Shape>> kPairShapes = {
    {{3, 4}, {3, 4}}, {{5}, {5}},          {Shape{}, Shape{}}, {{0, 2}, {0, 2}},
    {{2, 3}, {3}},    {{2, 1, 3}, {4, 3}}, {{37}, {37}}};

/** A function of one term for each element. */
struct TermCase {
  std::string variant;
  Term term;
  std::vector<Operand> operands;
  std::vector<std::vector<Shape>> shapes = kPairShapes;
  double factor = 4;
};

/** Returns the options with another reduction. */
template <class Options> Options with(Options options, Reduction reduction) {
  options.reduction = reduction;
  return options;
}

/** Adds a case for each reduction. */
template <class Options>
void test_terms(Row<Options>& row, const TermCase& c, const Options& options = {}) {
  for (const Reduction r : kReductions)
    row.test({.variant = c.variant + (c.variant.empty() ? "" : ", ") + text(r),
              .oracle = reduced_terms(c.term, r),
              .operands = c.operands,
              .shapes = c.shapes,
              .factor = c.factor},
             with(options, r));
}

/** Adds golden cases "variant/none", "/sum" and "/mean". PyTorch's expression ends before the
 *  reduction, with a comma or an opening parenthesis. */
template <class Options>
void golden_reductions(Row<Options>& row, const Golden& g, const Options& options = {}) {
  for (const Reduction r : kReductions)
    row.golden({g.variant + (g.variant.empty() ? "" : "/") + text(r),
                g.torch + "reduction='" + text(r) + "')", g.operands, g.factor},
               with(options, r));
}

// ---- arguments of the fuzzer --------------------------------------------------------------------

inline Reduction draw_reduction(FuzzDraw& d) {
  constexpr Reduction kAll[] = {Reduction::none, Reduction::mean, Reduction::sum,
                                Reduction::batchmean};
  return kAll[d.below(d.chance(0.1) ? 4 : 3)];
}

/** Returns the shape of unreduced terms or of one number. */
inline Expected terms(const std::optional<Sizes>& shape, Reduction reduction) {
  return !shape ? refused() : reduction == Reduction::none ? gives(*shape) : gives(Sizes{});
}

/** Draws `count` operands that usually broadcast. `options` makes options of a number in [0, 2). */
template <class Options> auto broadcasting(int count, Options (*options)(double number)) {
  return [=](FuzzDraw& d, const auto& call) {
    Tensors x{d.floats(0, 4)};
    while (static_cast<int>(x.size()) < count)
      x.push_back(d.tensor(d.like(x[0].shape()), x[0].dtype()));
    const Reduction how = draw_reduction(d);
    const Expected whole = broadcast_result(x);
    return Trial{call(x, with(options(d.real(0, 2)), how)),
                 whole ? terms((*whole)[0], how) : refused()};
  };
}

/** Class scores and targets: (C), (N,C) or (N,C,...). */
struct Classified {
  Tensor x, target, weight;
  std::int64_t ignore_index;
  Reduction how;
  double smoothing;
};

inline Classified classified(FuzzDraw& d, int max_rank) {
  Classified c;
  c.x = d.floats(1, max_rank);
  const int at = c.x.dim() == 1 ? 0 : 1;
  Shape places = c.x.shape();
  places.erase(at);
  c.target = d.index(d.chance(0.05) ? d.shape() : places, c.x.shape()[at]);
  c.weight = d.optional({c.x.shape()[at]}, c.x.dtype());
  c.ignore_index = d.number(-3, 3);
  c.how = draw_reduction(d);
  c.smoothing = d.flag() ? 0 : d.real(0, 1);
  return c;
}

/** Returns the sizes without those of the classes. */
inline Sizes places_of(const Tensor& x) {
  Sizes places = sizes(x);
  places.erase(places.begin() + (x.dim() == 1 ? 0 : 1));
  return places;
}

/** Returns the options with the class or term weights of operand 2, if there is one. */
template <class Options> Options weighted(Options options, const Tensors& x) {
  options.weight = optional(x, 2);
  return options;
}

/** Starts the row of a loss of two operands, maybe with weights. */
#define LOSS(op, Options) row(#op, CALL(op(x[0], x[1], o), const Options& o))
#define WEIGHTED_LOSS(op, Options) row(#op, CALL(op(x[0], x[1], weighted(o, x)), const Options& o))

}  // namespace rows
