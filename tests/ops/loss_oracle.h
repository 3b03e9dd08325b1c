// Helpers of the loss cases: oracles that reduce terms, and cases for every reduction.
#pragma once

#include <string>

#include "cases.h"

namespace cases {

using mezzo::Reduction;

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
using LossCall = std::function<Tensor(const std::vector<Tensor>& x, Reduction reduction)>;

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

struct TermCase {
  const char* op;
  std::string variant;
  LossCall call;
  Term term;
  std::vector<Operand> operands;
  std::vector<std::vector<Shape>> shapes = kPairShapes;
  double factor = 4;
};

inline void add_terms(const TermCase& c) {
  for (const Reduction r : kReductions)
    add_case(
        {.op = c.op,
         .variant = c.variant + (c.variant.empty() ? "" : ", ") + text(r),
         .call = [=](const std::vector<Tensor>& x) { return std::vector<Tensor>{c.call(x, r)}; },
         .oracle = reduced_terms(c.term, r),
         .operands = c.operands,
         .shapes = c.shapes,
         .factor = c.factor});
}

}  // namespace cases
