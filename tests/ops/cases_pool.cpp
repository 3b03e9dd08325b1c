// Cases of the pooling ops. One oracle walks over every window element by element, padding
// included.
#include <array>
#include <limits>

#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

using Sizes = std::array<std::int64_t, 3>;

/** The options of any pooling over depth, height and width; a missing dimension is one window of
 *  size 1. */
struct Pooling {
  int rank = 2;
  bool maximum = true;
  Sizes kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  bool ceil_mode = false, count_include_pad = true;
  double divisor = 0;
  Sizes windows{0, 0, 0};  // of adaptive pooling
};

/** The positions of one window along one dimension, including those in the padding. */
struct Taps {
  std::vector<std::int64_t> at;
  std::int64_t padded_end;  // positions from here on are outside the padding
};

/** Returns all windows along one dimension. */
std::vector<Taps> windows_along(const Pooling& p, std::size_t a, std::int64_t in) {
  std::vector<Taps> windows;
  const auto count = static_cast<double>(p.windows[a]);
  for (std::int64_t i = 0; i < p.windows[a]; ++i) {
    Taps taps{{}, in};
    const double begin = std::floor(static_cast<double>(i * in) / count);
    const double end = std::ceil(static_cast<double>((i + 1) * in) / count);
    for (auto k = static_cast<std::int64_t>(begin); static_cast<double>(k) < end; ++k)
      taps.at.push_back(k);
    windows.push_back(taps);
  }
  if (p.windows[a] > 0) return windows;
  for (std::int64_t start = -p.padding[a];; start += p.stride[a]) {
    const std::int64_t last = start + p.dilation[a] * (p.kernel[a] - 1);
    const bool fits = last < in + p.padding[a];
    const bool hangs_over = p.ceil_mode && start < in && last - p.stride[a] < in + p.padding[a] - 1;
    if (!fits && !hangs_over) return windows;
    Taps taps{{}, in + p.padding[a]};
    for (std::int64_t k = start; k <= last; k += p.dilation[a]) taps.at.push_back(k);
    windows.push_back(taps);
  }
}

/** Returns the maximum of one window of one plane and its position, or the mean. */
std::array<double, 2> pool_window(const Pooling& p, const Array& x, std::int64_t plane,
                                  const Sizes& in, const std::array<Taps, 3>& taps) {
  double best = -std::numeric_limits<double>::infinity(), sum = 0, inside = 0, padded = 0;
  std::int64_t place = -1;
  for (const std::int64_t d : taps[0].at)
    for (const std::int64_t h : taps[1].at)
      for (const std::int64_t w : taps[2].at) {
        padded += d < taps[0].padded_end && h < taps[1].padded_end && w < taps[2].padded_end;
        if (d < 0 || h < 0 || w < 0 || d >= in[0] || h >= in[1] || w >= in[2]) continue;
        const std::int64_t at = (d * in[1] + h) * in[2] + w;
        const double value = x[plane * in[0] * in[1] * in[2] + at];
        ++inside;
        sum += value;
        if (place < 0 || value > best) best = value, place = at;
      }
  if (p.maximum) return {best, static_cast<double>(place)};
  const double divisor = p.divisor > 0 ? p.divisor : p.count_include_pad ? padded : inside;
  return {sum / divisor, 0};
}

Oracle pooled(const Pooling& p, bool with_indices) {
  return [p, with_indices](const std::vector<Array>& operands) {
    const Array& x = operands[0];
    Shape shape = x.shape;
    Sizes in{1, 1, 1};
    std::array<std::vector<Taps>, 3> windows{{{{{0}, 1}}, {{{0}, 1}}, {{{0}, 1}}}};
    std::int64_t planes = 1;
    for (int i = 0; i < shape.rank() - p.rank; ++i) planes *= shape[i];
    for (int i = 0; i < p.rank; ++i) {
      const auto a = static_cast<std::size_t>(3 - p.rank + i);
      const int dim = shape.rank() - p.rank + i;
      in[a] = shape[dim];
      windows[a] = windows_along(p, a, in[a]);
      shape[dim] = static_cast<std::int64_t>(windows[a].size());
    }
    std::vector<Array> results(with_indices ? 2 : 1, Array{shape, {}});
    for (std::int64_t plane = 0; plane < planes; ++plane)
      for (const Taps& d : windows[0])
        for (const Taps& h : windows[1])
          for (const Taps& w : windows[2]) {
            const std::array<double, 2> result = pool_window(p, x, plane, in, {d, h, w});
            for (std::size_t r = 0; r < results.size(); ++r) results[r].values.push_back(result[r]);
          }
    return results;
  };
}

/** Returns shapes of a batch of planes, a single sample and an empty batch. */
std::vector<std::vector<Shape>> samples(int rank) {
  if (rank == 1) return {{{2, 3, 9}}, {{2, 8}}, {{0, 2, 6}}, {{1, 1, 5}}};
  if (rank == 2) return {{{2, 2, 6, 7}}, {{2, 5, 8}}, {{0, 2, 5, 5}}, {{3, 1, 8, 6}}};
  return {{{1, 2, 4, 5, 6}}, {{2, 5, 4, 5}}, {{0, 1, 4, 4, 4}}};
}

/** Maximum pooling needs operands without ties, where finite differences are wrong. */
Operand operand_for(bool maximum) { return {.positive_definite_gap = maximum}; }

void add_pooling(const char* op, const char* variant, const Pooling& p, Call call,
                 bool with_indices = false) {
  add_case({.op = op,
            .variant = variant,
            .call = std::move(call),
            .oracle = pooled(p, with_indices),
            .operands = {operand_for(p.maximum)},
            .shapes = samples(p.rank)});
}

std::vector<Tensor> both(const ValuesAndIndices& result) { return {result.values, result.indices}; }

using Function = Tensor (*)(const Tensor&, const WindowSizes&, const MaxPoolOptions&);
using AvgFunction = Tensor (*)(const Tensor&, const WindowSizes&, const AvgPoolOptions&);
using AdaptiveFunction = Tensor (*)(const Tensor&, const WindowSizes&);

Sizes last(int rank, std::int64_t value, std::int64_t before) {
  Sizes sizes{before, before, before};
  for (std::size_t i = 3 - static_cast<std::size_t>(rank); i < 3; ++i) sizes[i] = value;
  return sizes;
}

/** Adds max pooling cases with the same options in every dimension. */
void add_max(const char* op, int rank, Function f) {
  add_pooling(op, "side by side",
              {.rank = rank, .kernel = last(rank, 2, 1), .stride = last(rank, 2, 1)},
              [f](const std::vector<Tensor>& x) { return std::vector<Tensor>{f(x[0], 2, {})}; });
  add_pooling(op, "overlapping, padded",
              {.rank = rank,
               .kernel = last(rank, 3, 1),
               .stride = last(rank, 2, 1),
               .padding = last(rank, 1, 0)},
              [f](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{f(x[0], 3, {.stride = 2, .padding = 1})};
              });
  add_pooling(op, "dilated, rounded up",
              {.rank = rank,
               .kernel = last(rank, 2, 1),
               .stride = last(rank, 3, 1),
               .padding = last(rank, 1, 0),
               .dilation = last(rank, 2, 1),
               .ceil_mode = true},
              [f](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{
                    f(x[0], 2, {.stride = 3, .padding = 1, .dilation = 2, .ceil_mode = true})};
              });
}

void add_avg(const char* op, int rank, AvgFunction f) {
  add_pooling(
      op, "side by side",
      {.rank = rank, .maximum = false, .kernel = last(rank, 2, 1), .stride = last(rank, 2, 1)},
      [f](const std::vector<Tensor>& x) { return std::vector<Tensor>{f(x[0], 2, {})}; });
  Pooling p{.rank = rank,
            .maximum = false,
            .kernel = last(rank, 3, 1),
            .stride = last(rank, 2, 1),
            .padding = last(rank, 1, 0),
            .ceil_mode = true};
  add_pooling(op, "padded, rounded up", p, [f](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{f(x[0], 3, {.stride = 2, .padding = 1, .ceil_mode = true})};
  });
  p.count_include_pad = false;
  add_pooling(op, "padding not counted", p, [f](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{
        f(x[0], 3, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false})};
  });
  p.divisor = 5;
  p.ceil_mode = false;
  add_pooling(op, "another divisor", p, [f](const std::vector<Tensor>& x) {
    return std::vector<Tensor>{f(x[0], 3, {.stride = 2, .padding = 1, .divisor_override = 5})};
  });
}

void add_adaptive(const char* op, int rank, bool maximum, AdaptiveFunction f) {
  for (const std::int64_t windows : {1, 3, 7})
    add_pooling(op,
                windows == 1   ? "one"
                : windows == 3 ? "some"
                               : "more than elements",
                {.rank = rank, .maximum = maximum, .windows = last(rank, windows, 0)},
                [f, windows](const std::vector<Tensor>& x) {
                  return std::vector<Tensor>{f(x[0], windows)};
                });
}

const Registrar additions([] {
  add_max("max_pool1d", 1, max_pool1d);
  add_max("max_pool2d", 2, max_pool2d);
  add_max("max_pool3d", 3, max_pool3d);
  add_pooling(
      "max_pool1d", "with indices", {.rank = 1, .kernel = {1, 1, 2}, .stride = {1, 1, 1}},
      [](const std::vector<Tensor>& x) {
        return both(max_pool1d_with_indices(x[0], 2, {.stride = 1}));
      },
      true);
  add_pooling(
      "max_pool2d", "with indices", {.kernel = {1, 2, 2}, .stride = {1, 2, 2}},
      [](const std::vector<Tensor>& x) { return both(max_pool2d_with_indices(x[0], 2)); }, true);
  add_pooling(
      "max_pool2d", "unequal, with indices",
      {.kernel = {1, 2, 3}, .stride = {1, 1, 2}, .padding = {0, 0, 1}, .dilation = {1, 2, 1}},
      [](const std::vector<Tensor>& x) {
        return both(max_pool2d_with_indices(
            x[0], {2, 3}, {.stride = {1, 2}, .padding = {0, 1}, .dilation = {2, 1}}));
      },
      true);
  add_pooling(
      "max_pool3d", "unequal, with indices", {.rank = 3, .kernel = {2, 1, 3}, .stride = {1, 2, 1}},
      [](const std::vector<Tensor>& x) {
        return both(max_pool3d_with_indices(x[0], {2, 1, 3}, {.stride = {1, 2, 1}}));
      },
      true);
  add_avg("avg_pool1d", 1, avg_pool1d);
  add_avg("avg_pool2d", 2, avg_pool2d);
  add_avg("avg_pool3d", 3, avg_pool3d);
  add_pooling(
      "avg_pool2d", "unequal",
      {.maximum = false, .kernel = {1, 3, 2}, .stride = {1, 1, 3}, .padding = {0, 1, 0}},
      [](const std::vector<Tensor>& x) {
        return std::vector<Tensor>{avg_pool2d(x[0], {3, 2}, {.stride = {1, 3}, .padding = {1, 0}})};
      });
  add_adaptive("adaptive_avg_pool1d", 1, false, adaptive_avg_pool1d);
  add_adaptive("adaptive_avg_pool2d", 2, false, adaptive_avg_pool2d);
  add_adaptive("adaptive_avg_pool3d", 3, false, adaptive_avg_pool3d);
  add_adaptive("adaptive_max_pool1d", 1, true, adaptive_max_pool1d);
  add_adaptive("adaptive_max_pool2d", 2, true, adaptive_max_pool2d);
  add_adaptive("adaptive_max_pool3d", 3, true, adaptive_max_pool3d);
  add_pooling(
      "adaptive_max_pool2d", "unequal, with indices", {.windows = {0, 2, 3}},
      [](const std::vector<Tensor>& x) {
        return both(adaptive_max_pool2d_with_indices(x[0], {2, 3}));
      },
      true);
});

}  // namespace
