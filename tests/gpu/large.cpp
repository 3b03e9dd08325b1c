// What the device computes beside what the CPU computes, values and gradients, where work is cut into many blocks: norms, windows, attention.
#include <cmath>

#include <mezzo.h>

#include "../support/catch.h"
#include "need_device.h"

using namespace mezzo;

namespace {

const Device kDevice{DeviceKind::cuda, 0};

/** The greatest difference, in units of 1 + |expected|. */
double distance(const Tensor& got, const Tensor& expected) {
  if (!(got.shape() == expected.shape()) || got.dtype() != expected.dtype()) return INFINITY;
  const std::vector<double> a = got.to_vector<double>(), b = expected.to_vector<double>();
  double greatest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(a[i] - b[i]) / (1 + std::abs(b[i]));
    greatest = apart > greatest || apart != apart ? apart : greatest;
  }
  return greatest;
}

/** What f gives on a device and its gradients for floating operands. */
template <class F>
std::vector<Tensor> results_on(Device device, const std::vector<Tensor>& operands, const F& f) {
  std::vector<Tensor> x, wanted;
  for (const Tensor& operand : operands) {
    x.push_back(operand.detach().to(device));
    if (is_floating(operand.dtype())) wanted.push_back(x.back().requires_grad_());
  }
  manual_seed(5);
  const Tensor y = f(x);
  std::vector<double> values;
  for (std::int64_t i = 0; i < y.numel(); ++i) values.push_back(static_cast<double>(i % 7) * 0.25 - 0.5);
  const Tensor seed = tensor(values, y.shape(), {.dtype = y.dtype(), .device = device});
  std::vector<Tensor> all = grad(std::span(&y, 1), wanted, {.allow_unused = true}, std::span(&seed, 1));
  all.push_back(y);
  return all;
}

/** Both sides sum in orders of their own, so that the tolerance is one of f32. */
template <class F>
void check_alike(const std::vector<Tensor>& operands, const F& f, double tolerance = 2e-4) {
  const std::vector<Tensor> there = results_on(kDevice, operands, f), here = results_on(cpu, operands, f);
  for (std::size_t i = 0; i < here.size(); ++i) {
    INFO("result " << i);
    CHECK(distance(there[i].to(cpu), here[i]) < tolerance);
  }
}

}  // namespace

TEST_CASE("norms over many blocks agree with the CPU's", "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(1);
  for (const Shape& shape :
       {Shape{3, 5, 67, 71}, Shape{700, 33}, Shape{9000, 2}, Shape{40, 6, 7}, Shape{1, 4, 3000}}) {
    INFO(str(shape));
    const Tensor x = randn(shape) * 2 + 3, w = randn({shape[1]}), b = randn({shape[1]});
    check_alike({x, w, b}, [](const std::vector<Tensor>& t) {
      return batch_norm(t[0], {.weight = t[1], .bias = t[2], .training = true});
    });
    check_alike({x, w, b}, [](const std::vector<Tensor>& t) {
      return group_norm(t[0], t[0].size(1) % 2 == 0 ? 2 : 1, {.weight = t[1], .bias = t[2]});
    });
  }
}

TEST_CASE("statistics survive a first value far from the others", "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(2);
  const Tensor x = randn({4, 1, 2000});
  x.select(0, 0).select(0, 0).narrow(0, 0, 1).fill_(1e4);
  check_alike({x}, [](const std::vector<Tensor>& t) { return batch_norm(t[0], {.training = true}); });
}

TEST_CASE("pooling with windows of any overlap agrees with the CPU's", "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(3);
  const Tensor x = randn({3, 2, 37, 41});
  check_alike({x}, [](const std::vector<Tensor>& t) {
    return max_pool2d(t[0], {3}, {.stride = {2}, .padding = {1}});
  });
  check_alike({x}, [](const std::vector<Tensor>& t) {
    return max_pool2d(t[0], {4, 3}, {.stride = {1, 5}, .dilation = {2, 1}, .ceil_mode = true});
  });
  check_alike({x}, [](const std::vector<Tensor>& t) {
    return max_pool2d(t[0], {13}, {.stride = {1}, .padding = {6}});
  });
  check_alike({x}, [](const std::vector<Tensor>& t) {
    return avg_pool2d(t[0], {9, 5},
                      {.stride = {1, 3}, .padding = {2, 2}, .ceil_mode = true, .count_include_pad = false});
  });
  for (const std::int64_t n : {1, 2, 17, 37, 50}) {
    INFO(n);
    check_alike({x}, [n](const std::vector<Tensor>& t) { return adaptive_avg_pool2d(t[0], {n, n}); });
    check_alike({x}, [n](const std::vector<Tensor>& t) { return adaptive_max_pool2d(t[0], {n, 1}); });
  }
}

TEST_CASE("placed elements and blocks come back to where they were taken", "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(4);
  const Tensor x = randn({2, 3, 29, 31});
  check_alike({x}, [](const std::vector<Tensor>& t) { return repeat(t[0], {5, 1, 7, 2}); });
  check_alike({randn({3})}, [](const std::vector<Tensor>& t) { return repeat(t[0], {900}); });
  for (const PadMode mode : {PadMode::reflect, PadMode::replicate, PadMode::circular}) {
    INFO(static_cast<int>(mode));
    check_alike({x}, [mode](const std::vector<Tensor>& t) {
      return pad(t[0], {20, 25, 7, 28}, {.mode = mode});
    });
  }
  check_alike({x}, [](const std::vector<Tensor>& t) {
    return unfold(t[0], {5, 3}, {.dilation = {2, 1}, .padding = {3, 1}, .stride = {1, 2}});
  });
}

TEST_CASE("resizing by any factor agrees with the CPU's", "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(6);
  const Tensor x = randn({2, 3, 19, 23});
  for (const InterpolateMode mode : {InterpolateMode::nearest, InterpolateMode::nearest_exact,
                                     InterpolateMode::bilinear, InterpolateMode::bicubic})
    for (const Shape& size : {Shape{38, 46}, Shape{7, 5}, Shape{1, 400}, Shape{19, 23}, Shape{20, 1}}) {
      const bool smooth = mode == InterpolateMode::bilinear || mode == InterpolateMode::bicubic;
      for (const bool align : {false, true})
        for (const bool antialias : {false, true}) {
          if ((align || antialias) && !smooth) continue;
          INFO(static_cast<int>(mode) << " " << str(size) << " " << align << antialias);
          check_alike({x}, [&](const std::vector<Tensor>& t) {
            return interpolate(
                t[0],
                {.size = {size[0], size[1]}, .mode = mode, .align_corners = align, .antialias = antialias});
          });
        }
    }
}

TEST_CASE("samples at scattered places agree with the CPU's, and so do infinite gradients", "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(7);
  const Tensor x = randn({2, 5, 17, 13}), grid = rand({2, 40, 30, 2}) * 3 - 1.5;
  for (const GridSampleMode mode : {GridSampleMode::bilinear, GridSampleMode::bicubic})
    for (const GridSamplePadding padding : {GridSamplePadding::zeros, GridSamplePadding::border}) {
      INFO(static_cast<int>(mode) << static_cast<int>(padding));
      check_alike(
          {x, grid},
          [&](const std::vector<Tensor>& t) {
            return grid_sample(t[0], t[1], {.mode = mode, .padding_mode = padding});
          },
          2e-3);
    }
  const auto spoilt = [&](Device device) {
    const Tensor image = x.detach().to(device).requires_grad_();
    const Tensor y = grid_sample(image, grid.to(device), {});
    Tensor g = ones_like(y);
    g.select(0, 0).select(0, 1).fill_(INFINITY);
    return grad(std::span(&y, 1), std::vector{image}, {}, std::span(&g, 1))[0].to(cpu);
  };
  CHECK(isfinite(spoilt(kDevice)).to_vector<double>() == isfinite(spoilt(cpu)).to_vector<double>());
}

TEST_CASE("attention over many tiles agrees with the CPU's", "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(8);
  for (const DType dtype : {f32, f16, bf16})  // 16 bits on Tensor Cores, but for the widest
    for (const std::int64_t width : {40, 120, 150}) {
      const Tensor q = randn({2, 2, 130, width}).to(dtype), k = randn({2, 1, 75, width}).to(dtype),
                   v = randn({2, 2, 75, width - 7}).to(dtype);
      const Tensor mask = rand({130, 75}) > 0.3, added = randn({2, 130, 75}).to(dtype);
      const double tolerance = dtype == f32 ? 2e-4 : dtype == f16 ? 2e-3 : 1.6e-2;
      INFO(name(dtype) << " " << width);
      const auto check = [&](const std::vector<Tensor>& operands, const AttentionOptions& options) {
        check_alike(
            operands,
            [&](const std::vector<Tensor>& t) {
              AttentionOptions all = options;
              if (t.size() > 3) all.mask = t[3];
              return scaled_dot_product_attention(t[0], t[1], t[2], all);
            },
            tolerance);
      };
      check({q, k, v}, {});
      check({q, k, v}, {.is_causal = true});
      check({q, k, v, mask}, {.dropout_p = 0.4});
      check({q, k, v, added}, {});
    }
}

TEST_CASE("recurrent cells of many units agree with the CPU's", "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(9);
  const Tensor x = randn({7, 40}), h = randn({7, 70}) * 0.5, c = randn({7, 70}) * 0.5;
  const auto operands = [&](std::int64_t gates) {
    return std::vector<Tensor>{x,
                               h,
                               randn({gates * 70, 40}) * 0.2,
                               randn({gates * 70, 70}) * 0.2,
                               randn({gates * 70}) * 0.2,
                               randn({gates * 70}) * 0.2,
                               c};
  };
  const auto weights = [](const std::vector<Tensor>& t) { return RecurrentWeights{t[2], t[3], t[4], t[5]}; };
  check_alike(operands(1), [&](const std::vector<Tensor>& t) {
    return rnn_tanh_cell(t[0], rnn_relu_cell(t[0], t[1], weights(t)), weights(t)) + t[6] * 0;
  });
  check_alike(operands(3), [&](const std::vector<Tensor>& t) {
    return gru_cell(t[0], gru_cell(t[0], t[1], weights(t)), weights(t)) + t[6] * 0;
  });
  check_alike(operands(4), [&](const std::vector<Tensor>& t) {
    const LstmState next = lstm_cell(t[0], lstm_cell(t[0], {t[1], t[6]}, weights(t)), weights(t));
    return next.h + next.c;
  });
}
