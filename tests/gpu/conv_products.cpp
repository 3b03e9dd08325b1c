// Convolutions with a kernel of one element, in f32, run as matrix products.
#include <mezzo.h>

#include <algorithm>
#include <cmath>

#include "../emulator/counters.h"
#include "../support/catch.h"
#include "../support/values.h"
#include "device.h"

namespace {

using namespace mezzo;
using testing::kDevice;
using testing::kLast;
using testing::kRows;

/** The convolution of the one element of a kernel; "transposed": its adjoint. */
struct ProductCase {
  Shape x;
  std::int64_t channels;  // of the result
  std::int64_t stride = 1;
  bool transposed = false;
};

/** Returns the result and the gradients of x, the weight and the bias, in f64 on the CPU. `gaps`:
 *  x and the result's gradient are views with gaps. */
std::vector<Tensor> product_results(const ProductCase& c, DType dtype, Device device,
                                    MemoryFormat format, bool has_bias, bool gaps) {
  manual_seed(3);
  const int dims = c.x.rank() - 2;
  const bool has_format = dims == 2;
  Shape kernel = Shape::filled(c.x.rank(), 1);
  kernel[0] = c.transposed ? c.x[1] : c.channels;
  kernel[1] = c.transposed ? c.channels : c.x[1];
  const auto placed = [&](Tensor x, bool is_view) {
    x = x.to(f32).to(dtype).to(device);
    if (has_format) x = x.to(format);
    return is_view ? cat({x, x}, 1).slice(1, x.size(1), 2 * x.size(1)) : x;
  };
  const auto leaf = [&](const Shape& shape, bool is_view) {
    return placed(randn(shape, {.dtype = f64}), is_view).detach().requires_grad_();
  };
  const Tensor x = leaf(c.x, gaps), weight = leaf(kernel, false);
  const Tensor bias =
      has_bias ? randn({c.channels}, {.dtype = f64}).to(f32).to(dtype).to(device) : Tensor{};
  Tensor b = has_bias ? bias.detach().requires_grad_() : Tensor{};
  const auto convolve = [&] {
    const ConvOptions options{.stride = c.stride};
    const ConvTransposeOptions adjoint{.stride = c.stride, .output_padding = c.stride - 1};
    if (dims == 1)
      return c.transposed ? conv_transpose1d(x, weight, b, adjoint) : conv1d(x, weight, b, options);
    if (dims == 3)
      return c.transposed ? conv_transpose3d(x, weight, b, adjoint) : conv3d(x, weight, b, options);
    return c.transposed ? conv_transpose2d(x, weight, b, adjoint) : conv2d(x, weight, b, options);
  };
  const Tensor y = convolve();
  std::vector<Tensor> leaves{x, weight};
  if (has_bias) leaves.push_back(b);
  std::vector<Tensor> all{y};
  const Tensor g = placed(randn(y.shape(), {.dtype = f64}), gaps);
  for (const Tensor& gradient : grad(TensorList(y), leaves, {}, TensorList(g)))
    all.push_back(gradient);
  for (Tensor& result : all) result = result.detach().to(cpu).to(f64);
  return all;
}

double product_distance(const Tensor& got, const Tensor& expected) {
  if (got.shape() != expected.shape()) return INFINITY;
  if (expected.numel() == 0) return 0;
  return amax(abs(got - expected)).item<double>() / (1 + amax(abs(expected)).item<double>());
}

std::int64_t calls_of(const emulator::LaunchLog& log, const std::string& library) {
  return std::count(log.names.begin(), log.names.end(), library);
}

const std::vector<ProductCase> kProductCases{
    {{2, 3, 7, 7}, 8},
    {{3, 27, 13, 13}, 5},
    {{2, 64, 2, 3}, 48},  // of more results than images: rows are copied for the weight's gradient
    {{1, 4, 5, 6}, 9},
    {{4, 16, 1, 1}, 3},
    {{2, 1, 7, 7}, 1},
    {{5, 3, 1, 9}, 1},
    {{0, 3, 7, 7}, 4},
    {{2, 0, 3, 3}, 4},
    {{2, 5, 8, 7}, 6, 2},
    {{1, 32, 4, 4}, 40, 3},
    {{2, 3, 1, 1}, 4, 2},
    {{3, 5, 6, 4}, 7, 1, true},
    {{2, 5, 4, 3}, 6, 2, true},
    {{3, 4, 11}, 6, 2},
    {{3, 4, 11}, 6},
    {{2, 3, 4, 5, 3}, 4, 2, true},
};

}  // namespace

TEST_CASE("f32 convolutions with a kernel of one element agree with f64", "[gpu][conv]") {
  for (const ProductCase& c : kProductCases)
    for (const MemoryFormat format : {kRows, kLast})
      for (const bool has_bias : {false, true})
        for (const bool gaps : {false, true}) {
          if (format == kLast && c.x.rank() != 4) continue;
          INFO(str(c.x) << " to " << c.channels << ", stride " << c.stride << ", transposed "
                        << c.transposed << ", " << name(format) << ", bias " << has_bias
                        << ", gaps " << gaps);
          const auto exact = product_results(c, f64, cpu, format, has_bias, gaps);
          const auto got = product_results(c, f32, kDevice, format, has_bias, gaps);
          for (std::size_t i = 0; i < exact.size(); ++i)
            CHECK(product_distance(got[i], exact[i]) < 1e-6);
        }
}

TEST_CASE("only f32 convolutions with a kernel of one element are products", "[gpu][conv]") {
  const auto runs = [](const Tensor& x, const Tensor& w, const ConvOptions& options) {
    const emulator::LaunchLog log;
    conv2d(x, w, {}, options);
    return std::pair{calls_of(log, "cuBLASLt"), calls_of(log, "cuDNN")};
  };
  const std::pair<std::int64_t, std::int64_t> product{1, 0}, convolution{0, 1};
  const Tensor x = randn({2, 8, 6, 6}).to(kDevice), w = randn({8, 8, 1, 1}).to(kDevice);
  CHECK(runs(x, w, {}) == product);
  CHECK(runs(x, w, {.stride = 2}) == product);
  CHECK(runs(x.to(f16), w.to(f16), {}) == convolution);
  CHECK(runs(x, w, {.padding = 1}) == convolution);
  CHECK(runs(x, w.slice(1, 0, 4).contiguous(), {.groups = 2}) == convolution);
  CHECK(runs(x, randn({8, 8, 2, 1}).to(kDevice), {}) == convolution);
}

TEST_CASE("a nan or infinity in a convolution of one element stays at its position",
          "[gpu][conv]") {
  for (const MemoryFormat format : {kRows, kLast})
    for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
      Tensor x = ones({2, 3, 4, 4});
      x.select(0, 1).select(0, 2).select(0, 3).slice(0, 1, 2).fill_(bad);
      const Tensor w = ones({5, 3, 1, 1}).to(kDevice).to(format).requires_grad_();
      const Tensor leaf = x.to(kDevice).to(format).requires_grad_();
      const Tensor y = conv2d(leaf, w);
      const auto finite = isfinite(y.detach().to(cpu));
      CHECK(sum(finite.to(i64)).item<std::int64_t>() == 2 * 5 * 4 * 4 - 5);
      CHECK(!finite.select(0, 1).select(1, 3).select(1, 1).to(i64).to_vector<std::int64_t>()[0]);
      const auto gradients = grad(TensorList(sum(y)), {leaf, w});
      CHECK(all(isfinite(gradients[0])).item<bool>());
      const Tensor of_weight = isfinite(gradients[1].to(cpu));
      CHECK(sum(of_weight.to(i64)).item<std::int64_t>() == 5 * 2);
    }
}

TEST_CASE("f32 convolutions of one element can be captured and repeat their bits", "[gpu][conv]") {
  manual_seed(4);
  for (const std::int64_t stride : {1, 2})
    for (const MemoryFormat format : {kRows, kLast}) {
      const Tensor x = randn({2, 8, 6, 6}).to(kDevice).to(format).requires_grad_(),
                   w = randn({4, 8, 1, 1}).to(kDevice).to(format).requires_grad_(),
                   g = randn({2, 4, 6 / stride, 6 / stride}).to(kDevice).to(format);
      const auto run = [&] {
        const Tensor y = conv2d(x, w, {}, {.stride = stride});
        std::vector<Tensor> all = grad(TensorList(y), {x, w}, {}, TensorList(g));
        all.push_back(y.detach());
        return all;
      };
      const std::vector<Tensor> expected = run();
      gpu::Graph graph;
      std::vector<Tensor> captured;
      graph.capture(kDevice, [&] { captured = run(); });
      graph.replay();
      for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(captured[i].to_vector<float>() == expected[i].to_vector<float>());
    }
}
