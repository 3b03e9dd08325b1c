// Convolution and pooling layers against the functions they call.
#include "support.h"

using namespace mezzo;

TEST_CASE("Conv2d") {
  manual_seed(2);
  const nn::Conv2d layer(4, 6, 5, {.padding = 2}),
      grouped(4, 6, {3, 2}, {.stride = {2, 1}, .groups = 2, .bias = false});
  CHECK(keys(layer) == "weight [6,4,5,5], bias [6]");
  CHECK(keys(grouped) == "weight [6,2,3,2]");
  CHECK(str(layer) ==
        "Conv2d(4, 6, kernel 5, padding 2)  weight [6,4,5,5], bias [6]  606 parameters\n");
  CHECK(str(grouped) ==
        "Conv2d(4, 6, kernel 3x2, stride 2x1, groups 2)  weight [6,2,3,2]  72 parameters\n");
  const Tensor x = randn({2, 4, 9, 8});
  CHECK(layer(x).shape() == Shape{2, 6, 9, 8});
  CHECK(values(layer(x)) == values(conv2d(x, layer.weight(), layer.bias(), {.padding = 2})));
  CHECK(values(grouped(x)) ==
        values(conv2d(x, grouped.weight(), {}, {.stride = {2, 1}, .groups = 2})));
  const nn::Conv2d same(4, 4, 3, {.padding = "same"});
  CHECK(same(x).shape() == x.shape());
  CHECK(str(same).find("padding same") != std::string::npos);
  sum(layer(x)).backward();
  CHECK(layer.weight().grad().shape() == Shape{6, 4, 5, 5});
  CHECK(values(layer.bias().grad()) == std::vector<double>(6, 2.0 * 9 * 8));
  // U(-1, 1) / sqrt(4 * 25)
  double most = 0, squares = 0;
  for (double w : values(layer.weight())) most = std::max(most, std::abs(w)), squares += w * w;
  CHECK(most <= 0.1);
  CHECK(most > 0.099);
  CHECK(squares / 600 == Approx(0.01 / 3).epsilon(0.15));
}

TEST_CASE("Conv1d, Conv3d and transposed convolutions") {
  manual_seed(2);
  CHECK(keys(nn::Conv1d(4, 6, 3)) == "weight [6,4,3], bias [6]");
  CHECK(keys(nn::Conv3d(2, 3, {1, 2, 3})) == "weight [3,2,1,2,3], bias [3]");
  CHECK(nn::Conv1d(4, 6, 3)(randn({2, 4, 10})).shape() == Shape{2, 6, 8});
  CHECK(nn::Conv3d(2, 3, 2)(randn({1, 2, 4, 4, 4})).shape() == Shape{1, 3, 3, 3, 3});
  const nn::ConvTranspose2d up(8, 4, 4, {.stride = 2, .padding = 1, .groups = 2});
  CHECK(keys(up) == "weight [8,2,4,4], bias [4]");
  CHECK(up(randn({2, 8, 5, 5})).shape() == Shape{2, 4, 10, 10});
  CHECK(nn::ConvTranspose1d(2, 3, 3)(randn({1, 2, 5})).shape() == Shape{1, 3, 7});
  CHECK(nn::ConvTranspose3d(2, 3, 2)(randn({1, 2, 2, 2, 2})).shape() == Shape{1, 3, 3, 3, 3});
  double most = 0;
  for (double w : values(up.weight())) most = std::max(most, std::abs(w));
  CHECK(most <=
        1 / std::sqrt(2.0 * 16));  // as in PyTorch, fan-in is out/groups times the kernel size
  CHECK(most > 0.95 / std::sqrt(2.0 * 16));
}

TEST_CASE("invalid convolutions are refused at construction, with the layer's name") {
  CHECK(error_of<ValueError>([] { nn::Conv2d(3, 4, 3, {.groups = 2}); }) ==
        "Conv2d: groups do not divide the channels; got 2 groups for 3 and 4 channels, expected a "
        "divisor of "
        "both");
  CHECK_THROWS_AS(nn::Conv2d(0, 4, 3), ValueError);
  CHECK_THROWS_AS(nn::Conv1d(1, 4, 0), ValueError);
  CHECK_THROWS_AS(nn::Conv1d(1, 4, {3, 3}), ValueError);
  CHECK_THROWS_AS(nn::ConvTranspose2d(1, 0, 3), ValueError);
  const nn::Sequential net{nn::Conv2d{1, 2, 3}};
  CHECK(error_of<ShapeError>([&] { net(randn({1, 3, 5, 5})); }).find("conv2d(0): ") == 0);
}

TEST_CASE("pooling layers call their functions") {
  const Tensor x1 = randn({2, 3, 12}), x2 = randn({2, 3, 8, 6}), x3 = randn({2, 3, 4, 4, 4});
  CHECK(values(nn::MaxPool1d{3}(x1)) == values(max_pool1d(x1, 3)));
  CHECK(values(nn::MaxPool2d(3, {.stride = 2, .padding = 1})(x2)) ==
        values(max_pool2d(x2, 3, {.stride = 2, .padding = 1})));
  CHECK(values(nn::MaxPool3d{2}(x3)) == values(max_pool3d(x3, 2)));
  CHECK(values(nn::AvgPool1d{4}(x1)) == values(avg_pool1d(x1, 4)));
  CHECK(values(nn::AvgPool2d({2, 3})(x2)) == values(avg_pool2d(x2, {2, 3})));
  CHECK(values(nn::AvgPool3d{2}(x3)) == values(avg_pool3d(x3, 2)));
  CHECK(values(nn::AdaptiveAvgPool1d{5}(x1)) == values(adaptive_avg_pool1d(x1, 5)));
  CHECK(values(nn::AdaptiveAvgPool2d{1}(x2)) == values(adaptive_avg_pool2d(x2, 1)));
  CHECK(values(nn::AdaptiveAvgPool3d{2}(x3)) == values(adaptive_avg_pool3d(x3, 2)));
  CHECK(values(nn::AdaptiveMaxPool1d{5}(x1)) == values(adaptive_max_pool1d(x1, 5)));
  CHECK(values(nn::AdaptiveMaxPool2d({3, 2})(x2)) == values(adaptive_max_pool2d(x2, {3, 2})));
  CHECK(values(nn::AdaptiveMaxPool3d{2}(x3)) == values(adaptive_max_pool3d(x3, 2)));
  CHECK(str(nn::MaxPool2d{3, {.stride = 2, .padding = 1}}) ==
        "MaxPool2d(3, stride 2, padding 1) parameters\n");
}

namespace {

/** A depthwise convolution and its gradients by loops over all taps, in f64. */
struct DepthwiseOracle {
  std::vector<double> y, dx, dw;

  DepthwiseOracle(const Tensor& x, const Tensor& w, const Tensor& g, std::int64_t stride,
                  std::int64_t pad, std::int64_t dilation)
      : y(size(g), 0.0), dx(size(x), 0.0), dw(size(w), 0.0) {
    const auto xs = x.to_vector<double>(), ws = w.to_vector<double>(), gs = g.to_vector<double>();
    const std::int64_t planes = x.size(0) * x.size(1), height = x.size(2), width = x.size(3),
                       k = w.size(2);
    std::size_t at = 0;
    for (std::int64_t plane = 0; plane < planes; ++plane)
      for (std::int64_t i = 0; i < g.size(2); ++i)
        for (std::int64_t j = 0; j < g.size(3); ++j, ++at)
          for (std::int64_t tap = 0; tap < k * k; ++tap) {
            const std::int64_t row = i * stride - pad + tap / k * dilation,
                               column = j * stride - pad + tap % k * dilation;
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            const auto from = static_cast<std::size_t>((plane * height + row) * width + column),
                       weight = static_cast<std::size_t>(plane % x.size(1) * k * k + tap);
            y[at] += ws[weight] * xs[from];
            dx[from] += ws[weight] * gs[at];
            dw[weight] += gs[at] * xs[from];
          }
  }

 private:
  static std::size_t size(const Tensor& x) { return static_cast<std::size_t>(x.numel()); }
};

/** Returns whether numbers are close, and infinite or nan in the same places. */
bool close_to(const Tensor& got, const std::vector<double>& expected, double tolerance) {
  const auto values = got.to_vector<double>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool finite = std::isfinite(expected[i]);
    if (finite != std::isfinite(values[i])) return false;
    if (finite && std::fabs(values[i] - expected[i]) > tolerance) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("depthwise convolutions of any width equal sums over all taps", "[conv]") {
  manual_seed(4);
  for (const DType dtype : {f32, f64, bf16})
    for (const std::int64_t width : {3, 5, 8, 13, 16, 17, 31, 40})
      for (const std::int64_t stride : {1, 2, 3})
        for (const std::int64_t dilation : {1, 2}) {
          const std::int64_t k = stride == 3 ? 2 : 3, channels = 3;
          if (dilation * (k - 1) >= width) continue;
          Tensor x = randn({2, channels, width, width}).to(dtype);
          const bool infinite = width % 2 == 1 && stride == 1 && k == 3;
          if (infinite)
            x.select(0, 1).select(0, 2).select(0, width / 2).select(0, 0).fill_(INFINITY);
          x = x.requires_grad_();
          const Tensor w = randn({channels, 1, k, k}).to(dtype).requires_grad_();
          const Tensor y = conv2d(
              x, w, {}, {.stride = stride, .padding = 1, .dilation = dilation, .groups = channels});
          const Tensor g = randn(y.shape()).to(dtype);
          const auto gradients = grad({y}, {x, w}, {}, {g});
          const DepthwiseOracle expected(x.detach(), w.detach(), g, stride, 1, dilation);
          const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-3 : 0.5;
          INFO(name(dtype) << " width " << width << " stride " << stride << " dilation "
                           << dilation);
          CHECK(close_to(y, expected.y, tolerance));
          CHECK(close_to(gradients[0], expected.dx, tolerance));
          CHECK(close_to(gradients[1], expected.dw, dtype == bf16 ? 1.0 : tolerance));
          // The same in the other memory format.
          const Tensor last = x.detach().to(MemoryFormat::channels_last);
          const Tensor again =
              conv2d(last, w.detach(), {},
                     {.stride = stride, .padding = 1, .dilation = dilation, .groups = channels});
          if (!infinite) CHECK(again.to_vector<double>() == y.to_vector<double>());
        }
}

TEST_CASE("the gradient of a convolution's weight without a batch is 0 at any size", "[conv]") {
  for (const std::int64_t groups : {1, 4}) {
    const Tensor x = zeros({0, 4, 200000, 200000}).requires_grad_(),
                 w = ones({4, 4 / groups, 3, 3}).requires_grad_();
    const Tensor y = conv2d(x, w, {}, {.padding = 1, .groups = groups});
    CHECK(y.shape() == Shape{0, 4, 200000, 200000});
    const auto gradients = grad({sum(y)}, {x, w});
    CHECK(gradients[0].shape() == x.shape());
    CHECK(gradients[1].to_vector<double>() ==
          std::vector<double>(static_cast<std::size_t>(w.numel()), 0.0));
  }
}
