// Cases of lp_pool and max_unpool.
#include "places.h"

using namespace cases;
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

const Registrar additions([] {
  const Operand positive{.low = 0.2, .high = 2};
  add_case({.op = "lp_pool1d",
            .call = CALL(lp_pool1d(x[0], 3, 2)),
            .oracle = power_means(1, 3, 2, 2),
            .operands = {positive},
            .shapes = {{{2, 2, 5}}, {{1, 4}}}});
  add_case({.op = "lp_pool2d",
            .call = CALL(lp_pool2d(x[0], 1.5, 2, {.stride = 1})),
            .oracle = power_means(2, 1.5, 2, 1),
            .operands = {positive},
            .shapes = {{{1, 2, 3, 4}}}});
  add_case({.op = "lp_pool2d",
            .variant = "of any sign",
            .call = CALL(lp_pool2d(x[0], 2, 2)),
            .oracle = power_means(2, 2, 2, 2),
            .shapes = {{{2, 1, 4, 5}}}});
  add_case({.op = "lp_pool3d",
            .call = CALL(lp_pool3d(x[0], 2, 2)),
            .oracle = power_means(3, 2, 2, 2),
            .shapes = {{{1, 2, 2, 3, 4}}}});
  add_case({.op = "max_unpool1d",
            .call = CALL(max_unpool1d(x[0], positions(x[0], 1), 2)),
            .oracle =
                [](const std::vector<Array>& x) {
                  return unpooled({2 * x[0].shape.back()}, x[0].shape.rank() - 1, scattered)(x);
                },
            .shapes = {{{2, 2, 3}}, {{2, 4}}}});
  add_case({.op = "max_unpool2d",
            .call = CALL(
                max_unpool2d(x[0], positions(x[0], 2), 2, {.stride = 3, .output_size = {5, 4}})),
            .oracle = unpooled({5, 4}, 2, scattered),
            .shapes = {{{2, 2, 2, 3}}}});
  add_case({.op = "max_unpool3d",
            .call = CALL(max_unpool3d(x[0], positions(x[0], 3), {3, 2, 2},
                                      {.stride = 1, .padding = {1, 0, 0}})),
            .oracle = unpooled({2, 3, 4}, 2, scattered),
            .shapes = {{{1, 2, 2, 2, 3}}}});
});

}  // namespace
