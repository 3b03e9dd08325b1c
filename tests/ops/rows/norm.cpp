// Rows of the normalising ops.
#include <algorithm>
#include <array>
#include <optional>

#include "../../../tensor/core/dispatch.h"
#include "../../../tensor/core/registry.h"
#include "../../../tensor/ops/norm/layer_norm.h"
#include "../reduce_oracle.h"
#include "../row.h"
#include "smoke_lines.h"

using namespace cases;
using namespace rows;
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
Array normalized_lines(const std::vector<Array>& x,
                       const std::vector<std::vector<std::int64_t>>& lines, double eps,
                       bool centered, const AffineIndex& index) {
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
    return std::vector<Array>{normalized_lines(
        x, lines_of(x[0].shape, all_but_channels(x[0].shape)), eps, true, channel_of)};
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
    return std::vector<Array>{normalized_lines(x, lines_of({n, groups ? groups : s[1], per}, {2}),
                                               eps, true, channel_of)};
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
    return std::vector<Array>{normalized_lines(x, lines_of(s, dims), eps, centered, index)};
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

/** Normalises x[0] with weight x[1] and bias x[2], where they are given, in training: with the
 *  statistics of x. */
BatchNormOptions in_training(const Tensors& x, double eps) {
  return {.weight = optional(x, 1), .bias = optional(x, 2), .training = true, .eps = eps};
}

// ---- golden cases -------------------------------------------------------------------------------

/** Calls a norm and returns its result and the running statistics that it updated. */
template <class F> Tensors training(const Tensors& x, F&& norm) {
  const Tensor mean = x[1].clone(), var = x[2].clone();
  return {norm(mean, var), mean, var};
}

/** Operands: x, running statistics, weight, bias. */
BatchNormOptions outside_training(const Tensors& x) {
  return {.running_mean = x[1], .running_var = x[2], .weight = x[3], .bias = x[4]};
}

template <class F> Tensors updating(const Tensors& x, F norm) {
  return training(x, [&](const Tensor& mean, const Tensor& var) {
    return norm(x[0], BatchNormOptions{.running_mean = mean,
                                       .running_var = var,
                                       .weight = x[3],
                                       .bias = x[4],
                                       .training = true,
                                       .momentum = 0.3,
                                       .eps = 1e-3});
  });
}

const auto rectified_norm = [](const Tensor& x, const BatchNormOptions& o) {
  return batch_norm_relu(x, o);
};

const std::string kStatistics = ", constant(3), constant(3, low=0.2, high=2)";
const std::string kAffine = kStatistics + ", real(3), real(3)";

// ---- arguments of the fuzzer --------------------------------------------------------------------

Shape channels_of(const Tensor& x) { return {x.dim() >= 2 ? x.shape()[1] : 1}; }

/** Draws options of batch_norm and batch_norm_relu. */
BatchNormOptions batch_options(FuzzDraw& d, const Tensor& x) {
  BatchNormOptions options;
  const Shape channels = channels_of(x);
  options.training = d.flag();
  for (Tensor* running : {&options.running_mean, &options.running_var})
    *running = options.training ? d.optional(channels, DType::f32) : d.tensor(channels, DType::f32);
  for (Tensor* running : {&options.running_mean, &options.running_var})
    if (running->defined()) *running = running->detach();
  options.weight = d.optional(channels, DType::f32);
  options.bias = d.optional(channels, DType::f32);
  options.momentum = d.real(0, 1);
  options.eps = d.real(0, 1);
  if (d.flag()) options.num_batches_tracked = zeros(Shape{}, {.dtype = i64, .device = x.device()});
  return options;
}

Shape draw_tail(FuzzDraw& d, const Tensor& x) {
  Shape tail;
  for (std::int64_t i = d.below(x.dim() + 1); i < x.dim(); ++i) tail.push_back(x.shape()[i]);
  return d.chance(0.1) ? d.shape() : tail;
}

/** The weight and bias of a norm with options of type O. */
template <class O> O affine(const Tensors& x, double eps) {
  return {.weight = optional(x, 1), .bias = optional(x, 2), .eps = eps};
}

const MemoryFormat kFormats[] = {MemoryFormat::contiguous, MemoryFormat::channels_last};

Shape columns(const Tensors& x) { return {x[0].size(-1)}; }

const Rows batch_norm_rows("linear", [] {
  auto batch = row("batch_norm", CALL(batch_norm(x[0], in_training(x, eps)), double eps))
                   .test({.variant = "training",
                          .oracle = batch_oracle(1e-2),
                          .operands = {{}, kWeight, kBias},
                          .shapes = kChannelShapes,
                          .factor = 8},
                         1e-2)
                   .test({.variant = "training, plain",
                          .oracle = batch_oracle(0.1),
                          .shapes = first_operand(kChannelShapes),
                          .factor = 8},
                         0.1)
                   .golden({"without statistics", "F.batch_norm(x0, None, None, training=True)",
                            "real(4, 3, 2)", 4},
                           1e-5);
  row("batch_norm", CALL(batch_norm(x[0], o), const BatchNormOptions& o))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.floats(1, 5);
        const BatchNormOptions options = batch_options(d, x);
        return Trial{call({x}, options), x.dim() >= 2 ? gives(sizes(x)) : refused()};
      });
  row("batch_norm", CALL(batch_norm(x[0], in_evaluation(x))))
      .test({.variant = "evaluation",
             .oracle = [](const std::vector<Array>& x) { return std::vector<Array>{evaluated(x)}; },
             .operands = {{}, kWeight, kBias},
             .shapes = kChannelShapes,
             .factor = 4});
  row("batch_norm", CALL(batch_norm(x[0], outside_training(x))))
      .golden({"", "F.batch_norm", "real(4, 3, 2)" + kAffine})
      .golden({"2-D", "F.batch_norm", "real(5, 3)" + kAffine})
      .golden({"4-D", "F.batch_norm", "real(2, 3, 2, 2)" + kAffine});
  const std::string norm =
      "training(lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, True, 0.3, 1e-3))";
  row("batch_norm", CALL(updating(x, batch_norm)))
      .golden({"training ", norm, "real(4, 3, 2)" + kAffine, 4})
      .golden({"training 2-D", norm, "real(5, 3)" + kAffine, 4})
      .golden({"training 4-D", norm, "real(2, 3, 2, 2)" + kAffine, 4});
  auto together =
      row("sync_batch_norm",
          CALL(mezzo::detail::sync_batch_norm(x[0], in_training(x, 1e-5), comm::Communicator())));
  for (const MemoryFormat format : kFormats)
    for (const bool backward : {false, true}) {
      batch.smoke(smoke_channels("batch_norm", format, backward), 1e-5);
      together.smoke(smoke_channels("sync_batch_norm", format, backward));
    }
});

const Rows rectified_batch_norm_rows("linear", [] {
  row("batch_norm_relu",
      CALL(batch_norm_relu(x[0], in_training(x, eps), optional(x, 3)), double eps))
      .test({.variant = "training",
             .oracle = rectified(batch_oracle(1e-2)),
             .operands = {{}, kWeight, kBias},
             .shapes = kChannelShapes,
             .factor = 8},
            1e-2)
      .test({.variant = "training, residual",
             .oracle = rectified(batch_oracle(1e-2), 3),
             .operands = {{}, kWeight, kBias, kResidual},
             .shapes = {{{4, 3}, {3}, {3}, {4, 3}},
                        {{2, 3, 4}, {3}, {3}, {2, 3, 4}},
                        {{2, 3, 2, 2}, {3}, {3}, {2, 3, 2, 2}},
                        {{2, 5, 3, 4}, {5}, {5}, {2, 5, 3, 4}},
                        {{0, 2, 3}, {2}, {2}, {0, 2, 3}}},
             .factor = 8},
            1e-2);
  row("batch_norm_relu",
      CALL(batch_norm_relu(x[0], {.training = true, .eps = eps}, x[1]), double eps))
      .test({.variant = "training, plain, residual",
             .oracle = rectified(
                 [](const std::vector<Array>& x) { return batch_oracle(0.1)({x[0]}); }, 1),
             .operands = {{}, kResidual},
             .shapes = {{{4, 3}, {4, 3}}, {{2, 1, 9}, {2, 1, 9}}},
             .factor = 8},
            0.1)
      .golden({"residual, training", "F.relu(F.batch_norm(x0, None, None, training=True) + x1)",
               "real(4, 3, 2), real(4, 3, 2)", 4},
              1e-5);
  row("batch_norm_relu", CALL(batch_norm_relu(x[0], o, x[1]), const BatchNormOptions& o))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.floats(1, 5);
        const BatchNormOptions options = batch_options(d, x);
        const Tensor residual = d.optional(x.shape(), x.dtype());
        return Trial{call({x, residual}, options), x.dim() >= 2 ? gives(sizes(x)) : refused()};
      });
  row("batch_norm_relu", CALL(batch_norm_relu(x[0], in_evaluation(x))))
      .test({.variant = "evaluation",
             .oracle = rectified(
                 [](const std::vector<Array>& x) { return std::vector<Array>{evaluated(x)}; }),
             .operands = {{}, kWeight, kBias},
             .shapes = kChannelShapes,
             .factor = 4});
  const std::string norm =
      "training(lambda x, m, v, w, b: F.relu(F.batch_norm(x, m, v, w, b, True, 0.3, 1e-3)))";
  row("batch_norm_relu", CALL(updating(x, rectified_norm)))
      .golden({"training", norm, "real(4, 3, 2)" + kAffine, 4})
      .golden({"training 4-D", norm, "real(2, 3, 2, 2)" + kAffine, 4});
  const std::string sum = "F.relu(F.batch_norm(x0, x2, x3, x4, x5) + x1)";
  row("batch_norm_relu",
      CALL(batch_norm_relu(x[0], outside_training({x.begin() + 1, x.end()}), x[1])))
      .golden({"residual", sum, "real(4, 3, 2), real(4, 3, 2)" + kAffine})
      .golden({"residual 4-D", sum, "real(2, 3, 2, 2), real(2, 3, 2, 2)" + kAffine});
});

const Rows group_norm_rows("linear", [] {
  auto groups_norm =
      row("group_norm", CALL(group_norm(x[0], groups, affine<GroupNormOptions>(x, eps)),
                             std::int64_t groups, double eps))
          .test({.variant = "plain",
                 .oracle = group_oracle(2, 0.1),
                 .shapes = {{{2, 4, 3}}},
                 .factor = 8},
                2, 0.1)
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor x = d.floats(1, 5);
            const std::int64_t groups = d.number(0, 3);
            const Tensor weight = d.optional(channels_of(x), x.dtype()),
                         bias = d.optional(channels_of(x), x.dtype());
            const bool fits = x.dim() >= 2 && groups >= 1 && x.shape()[1] % groups == 0;
            return Trial{call({x, weight, bias}, groups, d.real(0, 1)),
                         fits ? gives(sizes(x)) : refused()};
          })
          .golden({"", "F.group_norm(x0, 2, x1, x2)", "real(2, 4, 3), real(4), real(4)", 4}, 2,
                  1e-5)
          .golden({"plain", "F.group_norm(x0, 3, eps=0.1)", "real(2, 6)", 4}, 3, 0.1)
          .smoke(smoke_channels("group_norm", MemoryFormat::contiguous, false), 4, 1e-5)
          .smoke(smoke_channels("group_norm", MemoryFormat::contiguous, true), 4, 1e-5);
  for (const std::int64_t groups : {1, 2, 4})
    groups_norm.test({.variant = std::to_string(groups),
                      .oracle = group_oracle(groups, 1e-2),
                      .operands = {{}, kWeight, kBias},
                      .shapes = {{{2, 4, 3}, {4}, {4}},
                                 {{3, 8}, {8}, {8}},
                                 {{1, 4, 2, 3}, {4}, {4}},
                                 {{0, 4, 2}, {4}, {4}}},
                      .factor = 8},
                     groups, 1e-2);
  row("instance_norm", CALL(instance_norm(x[0], affine<InstanceNormOptions>(x, eps)), double eps))
      .test({.oracle = group_oracle(0, 1e-2),
             .operands = {{}, kWeight, kBias},
             .shapes = {{{2, 4, 3}, {4}, {4}}, {{3, 1, 2, 5}, {1}, {1}}, {{0, 4, 2}, {4}, {4}}},
             .factor = 8},
            1e-2)
      .golden({"", "F.instance_norm(x0, weight=x1, bias=x2)", "real(2, 3, 5), real(3), real(3)", 4},
              1e-5);
  row("instance_norm", CALL(instance_norm(x[0], o), const InstanceNormOptions& o))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.floats(1, 5);
        const BatchNormOptions o = batch_options(d, x);
        const InstanceNormOptions options{o.running_mean, o.running_var, o.weight, o.bias,
                                          o.training,     o.momentum,    o.eps};
        return Trial{call({x}, options), x.dim() >= 2 ? gives(sizes(x)) : refused()};
      });
  row("instance_norm",
      CALL(instance_norm(x[0],
                         {.running_mean = x[1], .running_var = x[2], .use_input_stats = false})))
      .golden({"statistics", "F.instance_norm(x0, x1, x2, use_input_stats=False)",
               "real(2, 3, 5)" + kStatistics});
  row("instance_norm",
      [](const Tensors& x) {
        return training(x, [&](const Tensor& mean, const Tensor& var) {
          return instance_norm(x[0], {.running_mean = mean, .running_var = var, .momentum = 0.2});
        });
      })
      .golden({"updates", "training(lambda x, m, v: F.instance_norm(x, m, v, momentum=0.2))",
               "real(2, 3, 2, 2)" + kStatistics, 4});
});

const Rows line_norm_rows("linear", [] {
  const std::vector<std::vector<Shape>> rows{{{4, 6}, {6}, {6}},       {{2, 3, 5}, {5}, {5}},
                                             {{7}, {7}, {7}},          {{40, 3}, {3}, {3}},
                                             {{2, 300}, {300}, {300}}, {{0, 4}, {4}, {4}}};
  const std::vector<std::vector<Shape>> planes{{{2, 3, 4}, {3, 4}, {3, 4}},
                                               {{3, 5}, {3, 5}, {3, 5}}};
  auto of_lines =
      row("layer_norm", CALL(layer_norm(x[0], shape, affine<LayerNormOptions>(x, eps)),
                             const Shape& shape, double eps))
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor x = d.floats(0, 4);
            const Shape tail = draw_tail(d, x);
            const Tensor weight = d.optional(tail, x.dtype()), bias = d.optional(tail, x.dtype());
            return Trial{call({x, weight, bias}, tail, d.real(0, 1)), gives(sizes(x))};
          })
          .golden({"", "F.layer_norm(x0, (4,), x1, x2)", "real(2, 3, 4), real(4), real(4)", 4}, {4},
                  1e-5)
          .golden({"two dimensions", "F.layer_norm(x0, (3, 4), x1, eps=0.1)",
                   "real(2, 3, 4), real(3, 4)", 4},
                  {3, 4}, 0.1);
  auto of_last = row("layer_norm", CALL(layer_norm(x[0], x.size() > 1 ? x[1].shape() : columns(x),
                                                   affine<LayerNormOptions>(x, eps)),
                                        double eps))
                     .test({.oracle = row_oracle(1, 1e-2, true),
                            .operands = {{}, kWeight, kBias},
                            .shapes = rows,
                            .factor = 8},
                           1e-2)
                     .test({.variant = "two dimensions",
                            .oracle = row_oracle(2, 1e-2, true),
                            .operands = {{}, kWeight, kBias},
                            .shapes = planes,
                            .factor = 8},
                           1e-2)
                     .test({.variant = "plain",
                            .oracle = row_oracle(1, 0.1, true),
                            .shapes = first_operand(rows),
                            .factor = 8},
                           0.1);
  auto sums = row("add_layer_norm", [](const Tensors& x) {
    const op::AddLayerNorm::Attrs attrs{columns(x)};
    std::array<Tensor, 4> in{x[0], x[0] * 0.5, x[1], x[2]};
    std::array<Tensor, op::AddLayerNorm::traits.outputs> out;
    run(*find_op("add_layer_norm"), in, out, &attrs);
    return Tensors{out[1]};
  });
  row("rms_norm",
      CALL(rms_norm(x[0], shape, {.weight = x[1], .eps = eps}), const Shape& shape, double eps))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.floats(0, 4);
        const Shape tail = draw_tail(d, x);
        const Tensor weight = d.optional(tail, x.dtype());
        return Trial{call({x, weight}, tail, d.real(0, 1)), gives(sizes(x))};
      })
      .golden({"", "x0 * torch.rsqrt((x0 * x0).mean(-1, keepdim=True) + 1e-3) * x1",
               "real(3, 4), real(4)", 4},
              {4}, 1e-3);
  row("rms_norm", CALL(rms_norm(x[0], columns(x), {.weight = x[1], .eps = eps}), double eps))
      .test({.oracle = row_oracle(1, 1e-2, false),
             .operands = {{}, kWeight},
             .shapes =
                 {{{4, 6}, {6}}, {{2, 3, 5}, {5}}, {{7}, {7}}, {{2, 300}, {300}}, {{0, 4}, {4}}},
             .factor = 8},
            1e-2);
  auto plain = row("rms_norm", CALL(rms_norm(x[0], columns(x), {.weight = optional(x, 1)})))
                   .test({.variant = "default eps",
                          .oracle = row_oracle(1, 0x1p-23, false),
                          .operands = {{.low = 0.5, .high = 2}},
                          .shapes = {{{4, 6}}, {{2, 3, 5}}},
                          .factor = 8});
  for (const bool backward : {false, true}) {
    of_last.smoke(smoke_normalized("layer_norm", 2, backward), 1e-5);
    sums.smoke(smoke_normalized("add_layer_norm", 2, backward));
    plain.smoke(smoke_normalized("rms_norm", 1, backward));
  }
});

}  // namespace
