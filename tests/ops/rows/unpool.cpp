// Rows of lp_pool and max_unpool.
#include "../places.h"
#include "../row.h"
#include "windows.h"

using namespace cases;
using namespace rows;
using namespace mezzo;

namespace {

/** p-norms of windows of `kernel` with step `stride` along each of the last `rank` dimensions. */
Oracle power_means(int rank, double p, std::int64_t kernel, std::int64_t stride) {
  return [=](const std::vector<Array>& x) {
    const int lead = x[0].shape.rank() - rank;
    Shape shape = x[0].shape;
    for (int d = lead; d < shape.rank(); ++d) shape[d] = (shape[d] - kernel) / stride + 1;
    Array y{shape, {}};
    std::int64_t elements = 1;
    for (int d = 0; d < rank; ++d) elements *= kernel;
    for (std::int64_t i = 0; i < numel(shape); ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < elements; ++k) {
        std::int64_t rest = i, within = k, at = 0, step = 1;
        for (int d = shape.rank() - 1; d >= 0; --d) {
          std::int64_t place = rest % shape[d];
          if (d >= lead) {
            place = place * stride + within % kernel;
            within /= kernel;
          }
          at += place * step;
          step *= x[0].shape[d];
          rest /= shape[d];
        }
        sum += std::pow(x[0][at], p);
      }
      y.values.push_back(std::pow(sum, 1 / p));
    }
    return std::vector<Array>{y};
  };
}

/** Writes element j of every plane to position where(j) of a plane of `sizes`. */
Oracle unpooled(const Shape& sizes, int lead, std::int64_t (*where)(std::int64_t)) {
  return [=](const std::vector<Array>& x) {
    Shape shape;
    for (int d = 0; d < lead; ++d) shape.push_back(x[0].shape[d]);
    const std::int64_t planes = numel(shape), room = numel(sizes), values = x[0].numel() / planes;
    for (const std::int64_t s : sizes) shape.push_back(s);
    Array y{shape, std::vector<double>(static_cast<std::size_t>(planes * room), 0.0)};
    for (std::int64_t i = 0; i < x[0].numel(); ++i)
      y.values[static_cast<std::size_t>(i / values * room + where(i % values))] = x[0][i];
    return std::vector<Array>{y};
  };
}

std::int64_t scattered(std::int64_t j) { return j * 2 + 1; }

/** Returns the positions scattered(0), scattered(1), ... for every plane of x. */
Tensor positions(const Tensor& x, int rank) {
  std::int64_t values = 1;
  for (int d = x.dim() - rank; d < x.dim(); ++d) values *= x.size(d);
  std::vector<double> list;
  for (std::int64_t i = 0; i < x.numel(); ++i)
    list.push_back(static_cast<double>(scattered(i % values)));
  return tensor(list, x.shape(), {.dtype = i64, .device = x.device()});
}

const Operand positive{.low = 0.2, .high = 2};

using LpPool = Tensor (*)(const Tensor&, double, const WindowSizes&, const LpPoolOptions&);
using Unpool = Tensor (*)(const Tensor&, const Tensor&, const WindowSizes&,
                          const MaxUnpoolOptions&);

/** Returns the row of f in N dimensions. */
template <int N> auto lp_pool(const char* op, LpPool f) {
  return row(op, [f](const Tensors& x, double p, const WindowSizes& kernel,
                     const LpPoolOptions& o) { return Tensors{f(x[0], p, kernel, o)}; })
      .fuzz([](FuzzDraw& d, const auto& call) {
        PoolArguments a = pool_arguments(d, N);
        a.dilation = {1};
        a.padding = {0};
        const double p = d.real(-0.5, 3);
        return Trial{call({a.x}, p, as_window(a.kernel), {as_window(a.stride), a.ceil_mode}),
                     pooled_shape(a, N, false)};
      });
}

template <int N> auto max_unpool(const char* op, Unpool f) {
  return row(op, [f](const Tensors& x, const WindowSizes& kernel,
                     const MaxUnpoolOptions& o) { return Tensors{f(x[0], x[1], kernel, o)}; })
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = image(d, N);
        const std::vector<std::int64_t> kernel = window(d, N, 1, 3),
                                        padding{d.flag() ? 0 : d.number(0, 1)};
        const std::vector<std::int64_t> stride = d.flag() ? window(d, N, 1, 3)
                                                          : std::vector<std::int64_t>{},
                                        output = d.chance(0.3) ? window(d, N, 3, 9)
                                                               : std::vector<std::int64_t>{};
        const Tensor places = d.index(x.shape(), 2);
        Expected expected = refused();
        if (x.dim() == N + 1 || x.dim() == N + 2) {
          Sizes shape = sizes(x);
          bool fits = true;
          for (int i = 0; i < N; ++i) {
            Wide& size = shape[shape.size() - N + static_cast<std::size_t>(i)];
            const auto k = at(kernel, N, i), s = at(stride.empty() ? kernel : stride, N, i),
                       p = at(padding, N, i),
                       given = output.empty() ? std::optional<Wide>(0) : at(output, N, i);
            fits = fits && k && s && p && given;
            if (fits) size = output.empty() ? (size - 1) * *s - 2 * *p + *k : *given;
            fits = fits && size >= 1;
          }
          if (fits) expected = gives(shape);
        }

        return Trial{call({x, places}, as_window(kernel),
                          {as_window(stride), as_window(padding), as_window(output)}),
                     expected};
      });
}

const Rows unpool_rows("space", [] {
  lp_pool<1>("lp_pool1d", lp_pool1d)
      .test({.oracle = power_means(1, 3, 2, 2),
             .operands = {positive},
             .shapes = {{{2, 2, 5}}, {{1, 4}}}},
            3, 2, {})
      .golden({"", "F.lp_pool1d(x0, 3, 2)", "real(2, 2, 5, low=0.1)"}, 3, 2, {});
  lp_pool<2>("lp_pool2d", lp_pool2d)
      .test(
          {.oracle = power_means(2, 1.5, 2, 1), .operands = {positive}, .shapes = {{{1, 2, 3, 4}}}},
          1.5, 2, {.stride = 1})
      .test(
          {.variant = "of any sign", .oracle = power_means(2, 2, 2, 2), .shapes = {{{2, 1, 4, 5}}}},
          2, 2, {})
      .golden({"", "F.lp_pool2d(x0, 2, (2, 3), 1)", "real(1, 2, 4, 5)"}, 2, {2, 3}, {.stride = 1})
      .golden({"ceil", "F.lp_pool2d(x0, 2, 2, ceil_mode=True)", "real(1, 2, 3, 5)"}, 2, 2,
              {.ceil_mode = true});
  lp_pool<3>("lp_pool3d", lp_pool3d)
      .test({.oracle = power_means(3, 2, 2, 2), .shapes = {{{1, 2, 2, 3, 4}}}}, 2, 2, {})
      // Written out: the PyTorch version that made these files has no lp_pool3d.
      .golden({"", "(F.avg_pool3d(x0 * x0, 2) * 8).sqrt()", "real(1, 2, 2, 4, 5)"}, 2, 2, {});
  max_unpool<1>("max_unpool1d", max_unpool1d)
      .test({.call = CALL(max_unpool1d(x[0], positions(x[0], 1), 2)),
             .oracle =
                 [](const std::vector<Array>& x) {
                   return unpooled({2 * x[0].shape.back()}, x[0].shape.rank() - 1, scattered)(x);
                 },
             .shapes = {{{2, 2, 3}}, {{2, 4}}}});
  max_unpool<2>("max_unpool2d", max_unpool2d)
      .test({.call = CALL(
                 max_unpool2d(x[0], positions(x[0], 2), 2, {.stride = 3, .output_size = {5, 4}})),
             .oracle = unpooled({5, 4}, 2, scattered),
             .shapes = {{{2, 2, 2, 3}}}});
  max_unpool<3>("max_unpool3d", max_unpool3d)
      .test({.call = CALL(max_unpool3d(x[0], positions(x[0], 3), {3, 2, 2},
                                       {.stride = 1, .padding = {1, 0, 0}})),
             .oracle = unpooled({2, 3, 4}, 2, scattered),
             .shapes = {{{1, 2, 2, 2, 3}}}});
  row("max_unpool1d",
      [](const Tensors& x) {
        const ValuesAndIndices y = max_pool1d_with_indices(x[0], 2);
        return Tensors{max_unpool1d(y.values, y.indices, 2)};
      })
      .golden({"", "F.max_unpool1d(*F.max_pool1d(x0, 2, return_indices=True), 2)",
               "distinct(2, 2, 6)"});
  row("max_unpool2d",
      [](const Tensors& x) {
        const ValuesAndIndices y = max_pool2d_with_indices(x[0], 3, {.stride = 2, .padding = 1});
        return Tensors{max_unpool2d(y.values, y.indices, 3,
                                    {.stride = 2, .padding = 1, .output_size = {6, 5}})};
      })
      .golden({"",
               "F.max_unpool2d(*F.max_pool2d(x0, 3, 2, 1, return_indices=True), 3, 2, 1, "
               "output_size=x0.shape[-2:])",
               "distinct(1, 2, 6, 5)"});
  row("max_unpool3d",
      [](const Tensors& x) {
        const ValuesAndIndices y = max_pool3d_with_indices(x[0], 2);
        return Tensors{max_unpool3d(y.values, y.indices, 2)};
      })
      .golden({"", "F.max_unpool3d(*F.max_pool3d(x0, 2, return_indices=True), 2)",
               "distinct(1, 2, 2, 4, 2)"});
});

}  // namespace
