// Pooling where the generated tests do not reach: ties, nan, sizes, invalid arguments, threads,
// realistic image sizes.
#include <algorithm>
#include <cmath>

#include <mezzo.h>

#include "../support/throws.h"
#include "support.h"

using namespace mezzo;

namespace {

using Values = std::vector<double>;

Tensor plane(const Values& values, std::int64_t height, std::int64_t width) {
  return tensor(values, {1, height, width});
}

Shape pooled_shape(std::int64_t size, const WindowSizes& kernel, const MaxPoolOptions& options) {
  return max_pool1d(ones({1, size}), kernel, options).shape();
}

bool equal_nan(const Values& a, const Values& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double u, double v) { return u == v || (std::isnan(u) && std::isnan(v)); });
}

}  // namespace

TEST_CASE("max pooling chooses the first of equal elements, in both kernels", "[pool]") {
  const Tensor x = plane({1, 1, 1, 1, 1, 1, 1, 1, 1}, 3, 3).requires_grad_();
  const ValuesAndIndices pairs = max_pool2d_with_indices(x, 2);
  CHECK(pairs.indices.to_vector<double>() == Values{0});
  max_pool2d(x, 2, {.stride = 1}).backward(ones({1, 2, 2}));
  CHECK(x.grad().to_vector<double>() == Values{1, 1, 0, 1, 1, 0, 0, 0, 0});
}

TEST_CASE("max pooling chooses the first nan and treats -inf like other elements", "[pool]") {
  const Tensor x = plane({1, 2, 9, 1, kNan, 3, kNan, 1}, 2, 4);
  for (const std::int64_t stride : {2, 3}) {
    const ValuesAndIndices m = max_pool2d_with_indices(x, 2, {.stride = stride, .ceil_mode = true});
    CHECK(std::isnan(m.values.to_vector<double>()[0]));
    CHECK(m.indices.to_vector<double>()[0] == 4);
  }
  const ValuesAndIndices m = max_pool2d_with_indices(plane({kNan, 1, kNan, 5}, 2, 2), 2);
  CHECK(m.indices.to_vector<double>() == Values{0});
  const ValuesAndIndices low =
      max_pool2d_with_indices(plane(Values(4, -kInf), 2, 2), 2, {.stride = 2, .padding = 1});
  CHECK(low.values.to_vector<double>() == Values(4, -kInf));
  CHECK(low.indices.to_vector<double>() == Values{0, 1, 2, 3});
}

TEST_CASE("the number of windows", "[pool]") {
  CHECK(pooled_shape(7, 2, {}) == Shape{1, 3});
  CHECK(pooled_shape(7, 2, {.ceil_mode = true}) == Shape{1, 4});
  CHECK(pooled_shape(7, 3, {.stride = 2, .padding = 1}) == Shape{1, 4});
  CHECK(pooled_shape(6, 3, {.stride = 2, .padding = 1, .ceil_mode = true}) == Shape{1, 4});
  // A last window that would start after the input is dropped.
  CHECK(pooled_shape(4, 2, {.stride = 3, .padding = 1, .ceil_mode = true}) == Shape{1, 2});
  CHECK(pooled_shape(1, 1, {.stride = 2, .ceil_mode = true}) == Shape{1, 1});
  CHECK(pooled_shape(4, 5, {.stride = 2, .ceil_mode = true}) == Shape{1, 1});
  CHECK(pooled_shape(9, 3, {.dilation = 2}) == Shape{1, 2});
  CHECK(adaptive_avg_pool2d(ones({2, 3, 4, 5}), {7, 1}).shape() == Shape{2, 3, 7, 1});
}

TEST_CASE("an empty batch gives empty results and gradients", "[pool]") {
  const Tensor x = zeros({0, 3, 8, 8}).requires_grad_();
  const Tensor y = sum(max_pool2d(x, 2)) + sum(avg_pool2d(x, 2)) + sum(adaptive_max_pool2d(x, 3));
  y.backward();
  CHECK(y.item<float>() == 0);
  CHECK(x.grad().shape() == x.shape());
}

TEST_CASE("indices are returned whether or not a gradient is required", "[pool]") {
  const Tensor x = plane({1, 5, 2, 3}, 2, 2).requires_grad_();
  const NoGrad no_grad;
  CHECK(max_pool2d(x, 2).to_vector<double>() == Values{5});
  CHECK(max_pool2d_with_indices(x, 2).indices.to_vector<double>() == Values{1});
}

TEST_CASE("pooling rejects invalid arguments", "[pool]") {
  const Tensor x = ones({2, 3, 5, 5});
  CHECK_THROWS_WITH_AS_TEXT(
      max_pool2d(ones({5, 5}), 2), ShapeError,
      "max_pool2d: wrong number of dimensions; got f32[5,5]@cpu, expected [N,C,H,W] or");
  CHECK_THROWS_WITH_AS_TEXT(avg_pool1d(x, 2), ShapeError, "expected [N,C,L] or [C,L]");
  CHECK_THROWS_WITH_AS_TEXT(avg_pool2d(ones({1, 1, 0, 4}), 2), ShapeError,
                            "a pooled dimension is empty");
  CHECK_THROWS_WITH_AS_TEXT(
      max_pool2d(x, {2, 6}), ShapeError,
      "the window is larger than the padded input; got f32[2,3,5,5]@cpu, kernel 6 at "
      "dilation 1, expected a window of at most 5 in dimension 3");
  CHECK_THROWS_WITH_AS_TEXT(max_pool2d(x, {2, 2, 2}), ValueError,
                            "wrong number of values for kernel; got 3, expected 1 or 2");
  CHECK_THROWS_WITH_AS_TEXT(max_pool2d(x, WindowSizes{}), ValueError,
                            "wrong number of values for kernel");
  CHECK_THROWS_WITH_AS_TEXT(max_pool2d(x, 0), ValueError,
                            "kernel is out of range; got 0, expected 1..");
  CHECK_THROWS_WITH_AS_TEXT(max_pool2d(x, 2, {.stride = -1}), ValueError, "stride is out of range");
  CHECK_THROWS_WITH_AS_TEXT(max_pool2d(x, 2, {.dilation = 0}), ValueError,
                            "dilation is out of range");
  CHECK_THROWS_WITH_AS_TEXT(
      max_pool2d(x, 3, {.padding = 2}), ValueError,
      "padding is out of range; got 2, expected 0..1, half of the kernel's 3");
  CHECK_THROWS_WITH_AS_TEXT(avg_pool2d(x, 3, {.padding = -1}), ValueError,
                            "padding is out of range");
  CHECK_THROWS_WITH_AS_TEXT(avg_pool2d(x, 3, {.divisor_override = 0}), ValueError,
                            "divisor_override");
  CHECK_THROWS_WITH_AS_TEXT(adaptive_max_pool2d(x, {1, 0}), ValueError,
                            "output size is out of range");
  CHECK_THROWS_WITH_AS_TEXT(max_pool1d(ones({1, 3}), 2, {.padding = 1, .dilation = 4}), ShapeError,
                            "window 0 covers only padding");
  CHECK_THROWS_WITH_AS_TEXT(max_pool2d(ones({1, 4, 4}, {.dtype = i64}), 2), DtypeError,
                            "not defined for i64");
}

TEST_CASE("pooling gives the same bits for any number of threads", "[pool]") {
  const int before = num_threads();
  for (const DType dtype : {f32, f16, bf16, f64}) {
    std::vector<Values> results;
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      manual_seed(5);
      const Tensor x = randn({16, 8, 28, 28}, {.dtype = dtype}).requires_grad_();
      const Tensor y = sum(max_pool2d(x, 2) * adaptive_avg_pool2d(x, 14)) +
                       sum(max_pool2d(x, 3, {.stride = 2, .padding = 1}) * avg_pool2d(x, 2));
      y.backward();
      Values bits = x.grad().to_vector<double>();
      bits.push_back(y.item<double>());
      results.push_back(std::move(bits));
    }
    CHECK(results[0] == results[1]);
  }
  set_num_threads(before);
}

TEST_CASE("both max pooling kernels agree on realistic image sizes", "[pool]") {
  manual_seed(6);
  for (const DType dtype : {f16, f32, f64}) {
    // Few distinct values, so that most windows hold their maximum more than once, and some nan.
    const Tensor x = randint(-3, 4, {3, 2, 28, 40}).to(dtype);
    x.slice(3, 5, 40, 11).fill_(kNan);
    for (const std::int64_t kernel : {1, 2, 4}) {
      // The same windows in another form, which the window-by-window kernel computes.
      const ValuesAndIndices rows = max_pool2d_with_indices(x, kernel);
      const ValuesAndIndices windows =
          adaptive_max_pool2d_with_indices(x, {28 / kernel, 40 / kernel});
      CHECK(rows.indices.to_vector<double>() == windows.indices.to_vector<double>());
      CHECK(equal_nan(rows.values.to_vector<double>(), windows.values.to_vector<double>()));
      // Padding between the rows makes the kernel copy them first.
      const ValuesAndIndices copied =
          max_pool2d_with_indices(x.narrow(3, 0, 39), kernel, {.ceil_mode = true});
      const std::int64_t whole = 39 / kernel;
      CHECK(equal_nan(copied.values.narrow(3, 0, whole).to_vector<double>(),
                      rows.values.narrow(3, 0, whole).to_vector<double>()));
    }
  }
}

TEST_CASE("gradients without indices equal those with them", "[pool]") {
  manual_seed(7);
  struct Windows {
    WindowSizes kernel;
    MaxPoolOptions options;
  };
  // the last has more than 256 elements; "3 of 40" columns take the kernel for single windows
  const Windows all[] = {{2, {}},
                         {3, {.stride = 2, .padding = 1}},
                         {3, {.stride = 2, .padding = 1, .ceil_mode = true}},
                         {{1, 3}, {.stride = {2, 40}}},
                         {{2, 3}, {.stride = {1, 2}, .padding = {1, 1}, .dilation = {3, 2}}},
                         {{12, 22}, {.stride = 3}}};
  for (const DType dtype : {f16, f32, f64})
    for (const Windows& w : all) {
      const Tensor x = randint(-3, 4, {2, 3, 16, 44}).to(dtype).requires_grad_();
      x.detach().slice(3, 5, 44, 11).fill_(kNan);
      const Tensor y = max_pool2d(x, w.kernel, w.options),
                   indexed = max_pool2d_with_indices(x, w.kernel, w.options).values;
      const Tensor g = randint(-4, 5, y.shape()).to(dtype).requires_grad_();
      const Tensor gx = grad({y}, {x}, {.create_graph = true}, {g})[0],
                   expected = grad({indexed}, {x}, {.create_graph = true}, {g})[0];
      INFO(name(dtype) << " " << str(y.shape()));
      CHECK(gx.to_vector<double>() == expected.to_vector<double>());
      // the gradient with respect to g: the elements at the positions
      const Tensor h = randint(-4, 5, x.shape()).to(dtype);
      CHECK(grad({gx}, {g}, {}, {h})[0].to_vector<double>() ==
            grad({expected}, {g}, {}, {h})[0].to_vector<double>());
    }
  const Tensor x = randn({2, 5, 6, 7}).requires_grad_();
  const Tensor y = max_pool3d(x, {2, 3, 2}, {.stride = {1, 2, 2}, .padding = {1, 1, 0}}),
               g = randn(y.shape());
  const Tensor indexed =
      max_pool3d_with_indices(x, {2, 3, 2}, {.stride = {1, 2, 2}, .padding = {1, 1, 0}}).values;
  CHECK(grad({y}, {x}, {}, {g})[0].to_vector<double>() ==
        grad({indexed}, {x}, {}, {g})[0].to_vector<double>());
}

TEST_CASE("windows of 2 x 2 side by side have the bits of the kernel for all windows", "[pool]") {
  manual_seed(8);
  const auto bits = [](const Tensor& x) {
    Values out;
    for (const double value : x.to_vector<double>())
      out.push_back(std::isnan(value) ? 1e300 : std::copysign(std::fabs(value) + 1, value));
    return out;
  };
  // Rows narrower than a vector, as wide, and wider; planes of one row of windows; long rows.
  for (const std::int64_t width : {1, 3, 4, 5, 7, 8, 15, 16, 17, 33, 700})
    for (const DType dtype : {bf16, f16, f32, f64}) {
      const std::int64_t height = width == 700 ? 1 : width % 3 + 1;
      const Tensor x = (randint(-2, 3, {3, 2, 2 * height, 2 * width}).to(dtype) * -0.0 +
                        randint(-2, 3, {3, 2, 2 * height, 2 * width}).to(dtype))
                           .detach()
                           .requires_grad_();
      x.detach().flatten().slice(0, 2, x.numel(), 11).fill_(kNan);
      x.detach().flatten().slice(0, 5, x.numel(), 13).fill_(-kInf);
      const Tensor y = max_pool2d(x, 2), all = max_pool2d_with_indices(x, 2).values;
      INFO(name(dtype) << " " << width);
      CHECK(bits(y) == bits(all));
      Tensor g = randint(-1, 2, y.shape()).to(dtype);
      g = where(g == 0, full_like(g, -0.0), g);
      g.flatten().slice(0, 1, g.numel(), 7).fill_(kNan);
      CHECK(bits(grad({y}, {x}, {.retain_graph = true}, {g})[0]) ==
            bits(grad({all}, {x}, {.retain_graph = true}, {g})[0]));
    }
}
