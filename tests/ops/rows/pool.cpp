// Rows of the pooling ops. One oracle walks over every window element by element, padding included.
#include <array>
#include <limits>

#include "../row.h"
#include "smoke_lines.h"
#include "windows.h"

using namespace rows;
using namespace mezzo;

namespace {

using Triple = std::array<std::int64_t, 3>;

/** The options of any pooling over depth, height and width; a missing dimension is one window of
 *  size 1. */
struct Pooling {
  int rank = 2;
  bool maximum = true;
  Triple kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  bool ceil_mode = false, count_include_pad = true;
  double divisor = 0;
  Triple windows{0, 0, 0};  // of adaptive pooling
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
                                  const Triple& in, const std::array<Taps, 3>& taps) {
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
    Triple in{1, 1, 1};
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

Case pool_case(const char* variant, const Pooling& p, bool with_indices = false) {
  return {.variant = variant,
          .oracle = pooled(p, with_indices),
          .operands = {operand_for(p.maximum)},
          .shapes = samples(p.rank)};
}

Triple last(int rank, std::int64_t value, std::int64_t before) {
  Triple sizes{before, before, before};
  for (std::size_t i = 3 - static_cast<std::size_t>(rank); i < 3; ++i) sizes[i] = value;
  return sizes;
}

// ---- arguments of the fuzzer --------------------------------------------------------------------

template <int N>
Expected adaptive(const Tensor& x, const std::vector<std::int64_t>& output, bool pairs) {
  if (x.dim() != N + 1 && x.dim() != N + 2) return refused();
  Sizes shape = sizes(x);
  for (int i = 0; i < N; ++i) {
    const auto size = at(output, N, i);
    if (!size || *size < 1) return refused();
    shape[shape.size() - N + static_cast<std::size_t>(i)] = *size;
  }
  return pairs ? gives_both(shape) : gives(shape);
}

/** Draws arguments of max_pool, whose results are values, or values and indices. */
template <class Call> Trial draw_max(FuzzDraw& d, const Call& call, int dims, bool pairs) {
  const PoolArguments a = pool_arguments(d, dims);
  return {call({a.x}, as_window(a.kernel),
               {as_window(a.stride), as_window(a.padding), as_window(a.dilation), a.ceil_mode}),
          pooled_shape(a, dims, pairs)};
}

// ---- rows ---------------------------------------------------------------------------------------

using Values = Tensor (*)(const Tensor&, const WindowSizes&, const MaxPoolOptions&);
using Pairs = ValuesAndIndices (*)(const Tensor&, const WindowSizes&, const MaxPoolOptions&);
using AvgPool = Tensor (*)(const Tensor&, const WindowSizes&, const AvgPoolOptions&);
using Adaptive = Tensor (*)(const Tensor&, const WindowSizes&);
using AdaptivePairs = ValuesAndIndices (*)(const Tensor&, const WindowSizes&);

/** The operand of a golden case with N spatial dimensions: values of `kind`. */
template <int N> std::string plane(const char* kind) {
  constexpr const char* kShapes[] = {"(2, 3, 9)", "(1, 2, 7, 6)", "(1, 2, 5, 4, 6)"};
  return kind + std::string(kShapes[N - 1]);
}

/** Adds lines of images in both formats and in both passes. */
template <class Row, class... Args>
void smoke_pooling(Row& row, const std::string& op, const Args&... args) {
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last})
    for (const bool backward : {false, true})
      row.smoke(smoke_images(op, {f32, bf16}, format, backward), args...);
}

/** Adds max_pool in N dimensions: f, and `pairs`, which returns the indices too. */
template <int N> void add_max(const std::string& op, Values f, Pairs pairs) {
  const std::string torch = "F." + op;
  auto values = row(op, [f](const Tensors& x, const WindowSizes& kernel,
                            const MaxPoolOptions& o) { return Tensors{f(x[0], kernel, o)}; })
                    .test(pool_case("side by side",
                                    {.rank = N, .kernel = last(N, 2, 1), .stride = last(N, 2, 1)}),
                          2, {})
                    .test(pool_case("overlapping, padded", {.rank = N,
                                                            .kernel = last(N, 3, 1),
                                                            .stride = last(N, 2, 1),
                                                            .padding = last(N, 1, 0)}),
                          3, {.stride = 2, .padding = 1})
                    .test(pool_case("dilated, rounded up", {.rank = N,
                                                            .kernel = last(N, 2, 1),
                                                            .stride = last(N, 3, 1),
                                                            .padding = last(N, 1, 0),
                                                            .dilation = last(N, 2, 1),
                                                            .ceil_mode = true}),
                          2, {.stride = 3, .padding = 1, .dilation = 2, .ceil_mode = true})
                    .fuzz([](FuzzDraw& d, const auto& call) { return draw_max(d, call, N, false); })
                    .golden({"", torch + "(x0, 2)", plane<N>("distinct")}, 2, {});
  if (N == 2) smoke_pooling(values, op, WindowSizes(3), MaxPoolOptions{.stride = 2, .padding = 1});
  constexpr std::int64_t kSteps = N == 1 ? 2 : 1;
  auto both = row(op, [pairs](const Tensors& x, const WindowSizes& kernel,
                              const MaxPoolOptions& o) { return results(pairs(x[0], kernel, o)); })
                  .fuzz([](FuzzDraw& d, const auto& call) { return draw_max(d, call, N, true); })
                  .golden({"options", str(torch, "(x0, 3, 2, 1, ", kSteps, ", True, True)"),
                           plane<N>("distinct")},
                          3, {.stride = 2, .padding = 1, .dilation = kSteps, .ceil_mode = true});
  if (N == 1)
    both.test(
        pool_case("with indices", {.rank = 1, .kernel = {1, 1, 2}, .stride = {1, 1, 1}}, true), 2,
        {.stride = 1});
  if (N == 2)
    both.test(pool_case("with indices", {.kernel = {1, 2, 2}, .stride = {1, 2, 2}}, true), 2, {})
        .test(pool_case("unequal, with indices",
                        {.kernel = {1, 2, 3},
                         .stride = {1, 1, 2},
                         .padding = {0, 0, 1},
                         .dilation = {1, 2, 1}},
                        true),
              {2, 3}, {.stride = {1, 2}, .padding = {0, 1}, .dilation = {2, 1}});
  if (N == 3)
    both.test(pool_case("unequal, with indices",
                        {.rank = 3, .kernel = {2, 1, 3}, .stride = {1, 2, 1}}, true),
              {2, 1, 3}, {.stride = {1, 2, 1}});
}

template <int N> void add_avg(const std::string& op, AvgPool f) {
  const std::string torch = "F." + op;
  Pooling p{.rank = N,
            .maximum = false,
            .kernel = last(N, 3, 1),
            .stride = last(N, 2, 1),
            .padding = last(N, 1, 0),
            .ceil_mode = true};
  Pooling inside = p;
  inside.count_include_pad = false;
  Pooling divided = inside;
  divided.divisor = 5;
  divided.ceil_mode = false;
  auto means =
      row(op, [f](const Tensors& x, const WindowSizes& kernel,
                  const AvgPoolOptions& o) { return Tensors{f(x[0], kernel, o)}; })
          .test(
              pool_case(
                  "side by side",
                  {.rank = N, .maximum = false, .kernel = last(N, 2, 1), .stride = last(N, 2, 1)}),
              2, {})
          .test(pool_case("padded, rounded up", p), 3,
                {.stride = 2, .padding = 1, .ceil_mode = true})
          .test(pool_case("padding not counted", inside), 3,
                {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false})
          .test(pool_case("another divisor", divided), 3,
                {.stride = 2, .padding = 1, .divisor_override = 5})
          .fuzz([](FuzzDraw& d, const auto& call) {
            PoolArguments a = pool_arguments(d, N);
            a.dilation = {1};
            AvgPoolOptions options{
                as_window(a.stride), as_window(a.padding), a.ceil_mode, d.flag(), {}};
            if (d.flag()) options.divisor_override = d.number(0, 4);
            return Trial{call({a.x}, as_window(a.kernel), options), pooled_shape(a, N, false)};
          })
          .golden({"", torch + "(x0, 2)", plane<N>("real")}, 2, {})
          .golden({"options", torch + "(x0, 3, 2, 1, True, False)", plane<N>("real")}, 3,
                  {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false});
  if (N != 2) return;
  means
      .test(pool_case(
                "unequal",
                {.maximum = false, .kernel = {1, 3, 2}, .stride = {1, 1, 3}, .padding = {0, 1, 0}}),
            {3, 2}, {.stride = {1, 3}, .padding = {1, 0}})
      .golden(
          {"divisor", "F.avg_pool2d(x0, (3, 2), (1, 2), divisor_override=5)", "real(1, 2, 5, 4)"},
          {3, 2}, {.stride = {1, 2}, .divisor_override = 5});
  smoke_pooling(means, op, WindowSizes(2), AvgPoolOptions{});
}

/** Adds the cases of windows of all sizes. */
template <class Row> void test_adaptive(Row& row, int rank, bool maximum) {
  for (const std::int64_t windows : {1, 3, 7})
    row.test(pool_case(windows == 1   ? "one"
                       : windows == 3 ? "some"
                                      : "more than elements",
                       {.rank = rank, .maximum = maximum, .windows = last(rank, windows, 0)}),
             windows);
}

/** Draws an image and the result's sizes. */
template <int N, class Call> Trial draw_adaptive(FuzzDraw& d, const Call& call, bool pairs) {
  const Tensor x = image(d, N);
  const std::vector<std::int64_t> output = window(d, N, 1, 4);
  return {call({x}, as_window(output)), adaptive<N>(x, output, pairs)};
}

template <int N> void add_adaptive_avg(const std::string& op, Adaptive f) {
  auto means =
      row(op, [f](const Tensors& x, const WindowSizes& size) {
        return Tensors{f(x[0], size)};
      }).fuzz([](FuzzDraw& d, const auto& call) {
          return draw_adaptive<N>(d, call, false);
        }).golden({"", "F." + op + "(x0, 4)", plane<N>("real")}, 4);
  test_adaptive(means, N, false);
  if (N == 2) smoke_pooling(means, op, WindowSizes(1));
}

/** Adds adaptive_max_pool in N dimensions: f, and `pairs`, which returns the indices too. */
template <int N> void add_adaptive_max(const std::string& op, Adaptive f, AdaptivePairs pairs) {
  auto values =
      row(op, [f](const Tensors& x, const WindowSizes& size) { return Tensors{f(x[0], size)}; });
  test_adaptive(values, N, true);
  auto both =
      row(op, [pairs](const Tensors& x, const WindowSizes& size) {
        return results(pairs(x[0], size));
      }).fuzz([](FuzzDraw& d, const auto& call) {
          return draw_adaptive<N>(d, call, true);
        }).golden({"", "F." + op + "(x0, 3, return_indices=True)", plane<N>("distinct")}, 3);
  if (N == 2) both.test(pool_case("unequal, with indices", {.windows = {0, 2, 3}}, true), {2, 3});
}

const Rows pool_rows("window", [] {
  add_max<1>("max_pool1d", max_pool1d, max_pool1d_with_indices);
  add_max<2>("max_pool2d", max_pool2d, max_pool2d_with_indices);
  add_max<3>("max_pool3d", max_pool3d, max_pool3d_with_indices);
  add_avg<1>("avg_pool1d", avg_pool1d);
  add_avg<2>("avg_pool2d", avg_pool2d);
  add_avg<3>("avg_pool3d", avg_pool3d);
  add_adaptive_avg<1>("adaptive_avg_pool1d", adaptive_avg_pool1d);
  add_adaptive_avg<2>("adaptive_avg_pool2d", adaptive_avg_pool2d);
  add_adaptive_avg<3>("adaptive_avg_pool3d", adaptive_avg_pool3d);
  add_adaptive_max<1>("adaptive_max_pool1d", adaptive_max_pool1d, adaptive_max_pool1d_with_indices);
  add_adaptive_max<2>("adaptive_max_pool2d", adaptive_max_pool2d, adaptive_max_pool2d_with_indices);
  add_adaptive_max<3>("adaptive_max_pool3d", adaptive_max_pool3d, adaptive_max_pool3d_with_indices);
});

}  // namespace
