// Cases of the normalising ops.
#include <algorithm>
#include <array>
#include <optional>

#include "reduce_oracle.h"

using namespace cases;
using namespace mezzo;

namespace {

/** A function that gives the entry of weight and bias for element i: its channel in [N, C, ...] or
 *  its position in a row. */
using AffineIndex = std::function<std::size_t(const Shape& x, std::int64_t i)>;

std::size_t channel_of(const Shape& x, std::int64_t i) {
  std::int64_t inner = 1;
  for (int d = 2; d < x.rank(); ++d) inner *= x[d];
  return static_cast<std::size_t>(i / inner % x[1]);
}

/** Normalises lines of x (lists of positions), then applies weight and bias. Operands: x, weight,
 *  bias (or x alone). */
Array normalized(const std::vector<Array>& x, const std::vector<std::vector<std::int64_t>>& lines,
                 double eps, bool centered, const AffineIndex& index) {
  Array y = x[0];
  for (const auto& line : lines) {
    const auto n = static_cast<double>(line.size());
    double mean = 0, squares = 0;
    for (const std::int64_t i : line) mean += centered ? x[0][i] / n : 0;
    for (const std::int64_t i : line) squares += (x[0][i] - mean) * (x[0][i] - mean);
    for (const std::int64_t i : line)
      y.values[static_cast<std::size_t>(i)] = (x[0][i] - mean) / std::sqrt(squares / n + eps);
  }
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    double& v = y.values[static_cast<std::size_t>(i)];
    const std::size_t k = index(x[0].shape, i);
    if (x.size() > 1) v *= x[1].values[k];
    if (x.size() > 2) v += x[2].values[k];
  }
  return y;
}

std::vector<int> all_but_channels(const Shape& shape) {
  std::vector<int> dims{0};
  for (int d = 2; d < shape.rank(); ++d) dims.push_back(d);
  return dims;
}

Oracle batch_oracle(double eps) {
  return [=](const std::vector<Array>& x) {
    return std::vector<Array>{
        normalized(x, lines_of(x[0].shape, all_but_channels(x[0].shape)), eps, true, channel_of)};
  };
}

/** Options of batch_norm in evaluation, with running statistics 0.25 and 1.75 and eps 0.5. */
BatchNormOptions in_evaluation(const std::vector<Tensor>& x) {
  const std::int64_t c = x[0].shape()[1];
  const TensorOptions there{.device = x[0].device()};
  return {.running_mean = full({c}, 0.25, there),
          .running_var = full({c}, 1.75, there),
          .weight = x[1],
          .bias = x[2],
          .eps = 0.5};
}
Array evaluated(const std::vector<Array>& x) {
  Array y = x[0];
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const std::size_t c = channel_of(x[0].shape, i);
    y.values[static_cast<std::size_t>(i)] =
        (x[0][i] - 0.25) / 1.5 * x[1].values[c] + x[2].values[c];
  }
  return y;
}

/** Applies relu to the result of another oracle, plus an operand where its number is given. */
Oracle rectified(const Oracle& oracle, std::optional<std::size_t> residual = {}) {
  return [=](const std::vector<Array>& x) {
    Array y = oracle(x)[0];
    for (std::size_t i = 0; i < y.values.size(); ++i)
      y.values[i] = std::max(0.0, y.values[i] + (residual ? x[*residual].values[i] : 0));
    return std::vector<Array>{y};
  };
}

/** The oracle of normalisation over `groups` groups of channels of each sample. */
Oracle group_oracle(std::int64_t groups, double eps) {
  return [=](const std::vector<Array>& x) {
    const Shape& s = x[0].shape;
    const std::int64_t n = s[0], per = n == 0 ? 0 : x[0].numel() / (n * (groups ? groups : s[1]));
    return std::vector<Array>{
        normalized(x, lines_of({n, groups ? groups : s[1], per}, {2}), eps, true, channel_of)};
  };
}

Oracle row_oracle(int rank, double eps, bool centered) {
  return [=](const std::vector<Array>& x) {
    const Shape& s = x[0].shape;
    std::vector<int> dims;
    std::int64_t length = 1;
    for (int d = s.rank() - rank; d < s.rank(); ++d) {
      dims.push_back(d);
      length *= s[d];
    }
    const auto index = [=](const Shape&, std::int64_t i) {
      return static_cast<std::size_t>(i % length);
    };
    return std::vector<Array>{normalized(x, lines_of(s, dims), eps, centered, index)};
  };
}

const Operand kWeight{.low = 0.5, .high = 1.5, .parameter_like = true},
    kBias{.parameter_like = true};
// Far from what it is added to: a sum near 0 could round to the other side of relu's kink.
const Operand kResidual{.low = -20, .high = 20};

const std::vector<std::vector<Shape>> kChannelShapes{
    {{4, 3}, {3}, {3}},    {{2, 3, 4}, {3}, {3}},    {{2, 3, 2, 2}, {3}, {3}},
    {{70, 5}, {5}, {5}},   {{3, 70}, {70}, {70}},    {{0, 2, 3}, {2}, {2}},
    {{2, 1, 9}, {1}, {1}}, {{2, 5, 3, 4}, {5}, {5}}, {{2, 3, 1, 2, 2}, {3}, {3}}};

std::vector<std::vector<Shape>> first_operand(std::vector<std::vector<Shape>> shapes) {
  for (auto& s : shapes) s.resize(1);
  return shapes;
}

const Registrar additions([] {
  add_case({.op = "batch_norm",
            .variant = "training",
            .call = CALL(
                batch_norm(x[0], {.weight = x[1], .bias = x[2], .training = true, .eps = 1e-2})),
            .oracle = batch_oracle(1e-2),
            .operands = {{}, kWeight, kBias},
            .shapes = kChannelShapes,
            .factor = 8});
  add_case({.op = "batch_norm",
            .variant = "training, plain",
            .call = CALL(batch_norm(x[0], {.training = true, .eps = 0.1})),
            .oracle = batch_oracle(0.1),
            .shapes = first_operand(kChannelShapes),
            .factor = 8});
  add_case({.op = "batch_norm",
            .variant = "evaluation",
            .call = CALL(batch_norm(x[0], in_evaluation(x))),
            .oracle = [](const std::vector<Array>& x) { return std::vector<Array>{evaluated(x)}; },
            .operands = {{}, kWeight, kBias},
            .shapes = kChannelShapes,
            .factor = 4});
  add_case({.op = "batch_norm_relu",
            .variant = "training",
            .call = CALL(batch_norm_relu(
                x[0], {.weight = x[1], .bias = x[2], .training = true, .eps = 1e-2})),
            .oracle = rectified(batch_oracle(1e-2)),
            .operands = {{}, kWeight, kBias},
            .shapes = kChannelShapes,
            .factor = 8});
  add_case({.op = "batch_norm_relu",
            .variant = "training, residual",
            .call = CALL(batch_norm_relu(
                x[0], {.weight = x[1], .bias = x[2], .training = true, .eps = 1e-2}, x[3])),
            .oracle = rectified(batch_oracle(1e-2), 3),
            .operands = {{}, kWeight, kBias, kResidual},
            .shapes = {{{4, 3}, {3}, {3}, {4, 3}},
                       {{2, 3, 4}, {3}, {3}, {2, 3, 4}},
                       {{2, 3, 2, 2}, {3}, {3}, {2, 3, 2, 2}},
                       {{2, 5, 3, 4}, {5}, {5}, {2, 5, 3, 4}},
                       {{0, 2, 3}, {2}, {2}, {0, 2, 3}}},
            .factor = 8});
  add_case({.op = "batch_norm_relu",
            .variant = "training, plain, residual",
            .call = CALL(batch_norm_relu(x[0], {.training = true, .eps = 0.1}, x[1])),
            .oracle =
                rectified([](const std::vector<Array>& x) { return batch_oracle(0.1)({x[0]}); }, 1),
            .operands = {{}, kResidual},
            .shapes = {{{4, 3}, {4, 3}}, {{2, 1, 9}, {2, 1, 9}}},
            .factor = 8});
  add_case({.op = "batch_norm_relu",
            .variant = "evaluation",
            .call = CALL(batch_norm_relu(x[0], in_evaluation(x))),
            .oracle = rectified(
                [](const std::vector<Array>& x) { return std::vector<Array>{evaluated(x)}; }),
            .operands = {{}, kWeight, kBias},
            .shapes = kChannelShapes,
            .factor = 4});

  for (const std::int64_t groups : {1, 2, 4})
    add_case({.op = "group_norm",
              .variant = std::to_string(groups),
              .call =
                  [=](const std::vector<Tensor>& x) {
                    return std::vector<Tensor>{
                        group_norm(x[0], groups, {.weight = x[1], .bias = x[2], .eps = 1e-2})};
                  },
              .oracle = group_oracle(groups, 1e-2),
              .operands = {{}, kWeight, kBias},
              .shapes = {{{2, 4, 3}, {4}, {4}},
                         {{3, 8}, {8}, {8}},
                         {{1, 4, 2, 3}, {4}, {4}},
                         {{0, 4, 2}, {4}, {4}}},
              .factor = 8});
  add_case({.op = "group_norm",
            .variant = "plain",
            .call = CALL(group_norm(x[0], 2, {.eps = 0.1})),
            .oracle = group_oracle(2, 0.1),
            .shapes = {{{2, 4, 3}}},
            .factor = 8});
  add_case({.op = "instance_norm",
            .call = CALL(instance_norm(x[0], {.weight = x[1], .bias = x[2], .eps = 1e-2})),
            .oracle = group_oracle(0, 1e-2),
            .operands = {{}, kWeight, kBias},
            .shapes = {{{2, 4, 3}, {4}, {4}}, {{3, 1, 2, 5}, {1}, {1}}, {{0, 4, 2}, {4}, {4}}},
            .factor = 8});

  const std::vector<std::vector<Shape>> rows{{{4, 6}, {6}, {6}},       {{2, 3, 5}, {5}, {5}},
                                             {{7}, {7}, {7}},          {{40, 3}, {3}, {3}},
                                             {{2, 300}, {300}, {300}}, {{0, 4}, {4}, {4}}};
  const std::vector<std::vector<Shape>> planes{{{2, 3, 4}, {3, 4}, {3, 4}},
                                               {{3, 5}, {3, 5}, {3, 5}}};
  add_case(
      {.op = "layer_norm",
       .call = CALL(layer_norm(x[0], x[1].shape(), {.weight = x[1], .bias = x[2], .eps = 1e-2})),
       .oracle = row_oracle(1, 1e-2, true),
       .operands = {{}, kWeight, kBias},
       .shapes = rows,
       .factor = 8});
  add_case(
      {.op = "layer_norm",
       .variant = "two dimensions",
       .call = CALL(layer_norm(x[0], x[1].shape(), {.weight = x[1], .bias = x[2], .eps = 1e-2})),
       .oracle = row_oracle(2, 1e-2, true),
       .operands = {{}, kWeight, kBias},
       .shapes = planes,
       .factor = 8});
  add_case({.op = "layer_norm",
            .variant = "plain",
            .call = CALL(layer_norm(x[0], {x[0].size(-1)}, {.eps = 0.1})),
            .oracle = row_oracle(1, 0.1, true),
            .shapes = first_operand(rows),
            .factor = 8});
  add_case(
      {.op = "rms_norm",
       .call = CALL(rms_norm(x[0], x[1].shape(), {.weight = x[1], .eps = 1e-2})),
       .oracle = row_oracle(1, 1e-2, false),
       .operands = {{}, kWeight},
       .shapes = {{{4, 6}, {6}}, {{2, 3, 5}, {5}}, {{7}, {7}}, {{2, 300}, {300}}, {{0, 4}, {4}}},
       .factor = 8});
  add_case({.op = "rms_norm",
            .variant = "default eps",
            .call = CALL(rms_norm(x[0], {x[0].size(-1)})),
            .oracle = row_oracle(1, 0x1p-23, false),
            .operands = {{.low = 0.5, .high = 2}},
            .shapes = {{{4, 6}}, {{2, 3, 5}}},
            .factor = 8});
});

}  // namespace
