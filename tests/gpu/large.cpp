// Device values and gradients against the CPU's at sizes of many blocks: norms, windows, attention.
#include <cmath>
#include <limits>

#include "alike.h"

using namespace alike;

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

TEST_CASE("batch norms of many rows of channels agree with the CPU's", "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(9);
  // More than a million elements: rows of 16-byte packs, and rows that are no packs.
  struct Case {
    Shape shape;
    DType dtype;
    bool adds;  // a residual before the relu
  };
  const Case cases[] = {{{17, 8, 90, 91}, bf16, true}, {{3, 24, 131, 127}, f32, false},
                        {{10000, 128}, f16, false},    {{10000, 128}, f32, true},
                        {{513, 2056}, bf16, false},    {{9, 65, 43, 47}, f32, true},
                        {{9, 65, 43, 47}, bf16, false}};
  for (const Case& c : cases) {
    const Shape& shape = c.shape;
    const DType dtype = c.dtype;
    INFO(str(shape) << " " << name(dtype));
    const auto last = [&](const Tensor& t) {
      return shape.rank() == 4 ? t.to(MemoryFormat::channels_last) : t;
    };
    const Tensor x = last((randn(shape) * 2 + 3).to(dtype)), w = randn({shape[1]}),
                 b = randn({shape[1]}), residual = last(randn(shape).to(dtype));
    // The gradients are sums of up to 139,230 products.
    const double tolerance = dtype == f32 ? 1e-3 : dtype == f16 ? 4e-3 : 3e-2;
    const auto options = [](const std::vector<Tensor>& t) {
      return BatchNormOptions{.weight = t[1], .bias = t[2], .training = true};
    };
    check_alike(
        {x, w, b}, [&](const std::vector<Tensor>& t) { return batch_norm(t[0], options(t)); },
        tolerance);
    if (dtype == f16) continue;
    // Relu depends on signs, which differ where rounding differs: compared with its parts.
    const std::vector<Tensor> in{x, w, b, residual};
    const auto fused = results_on(kDevice, in, [&](const std::vector<Tensor>& t) {
      return batch_norm_relu(t[0], options(t), c.adds ? t[3] : Tensor());
    });
    const auto parts = results_on(kDevice, in, [&](const std::vector<Tensor>& t) {
      const Tensor y = batch_norm(t[0], options(t));
      return relu(c.adds ? y + t[3] : y);
    });
    for (std::size_t i = 0; i < fused.size(); ++i)
      if (fused[i].defined()) {
        INFO("result " << i);
        CHECK(fused[i].to_vector<double>() == parts[i].to_vector<double>());
      }
  }
}

TEST_CASE("a batch norm of many rows of channels updates its running statistics", "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(10);
  const Tensor x = (randn({16, 64, 33, 32}) + 5).to(MemoryFormat::channels_last);
  const nn::BatchNorm2d here{64}, there{64};
  there.to(kDevice);
  for (int i = 0; i < 2; ++i) here(x), there(x.to(kDevice));
  CHECK(distance(there.running_mean().to(cpu), here.running_mean()) < 1e-5);
  CHECK(distance(there.running_var().to(cpu), here.running_var()) < 1e-5);
  CHECK(there.num_batches_tracked().item<std::int64_t>() == 2);
}

TEST_CASE("statistics are accurate with a first value far from the others", "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(2);
  const Tensor x = randn({4, 1, 2000});
  x.select(0, 0).select(0, 0).narrow(0, 0, 1).fill_(1e4);
  check_alike({x},
              [](const std::vector<Tensor>& t) { return batch_norm(t[0], {.training = true}); });
}

TEST_CASE("norms of rows agree with the CPU's, with and without trainable weights",
          "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(6);
  // Shapes in which a block handles one row, several rows or a part of a row; few and many rows.
  for (const Shape& shape : {Shape{700, 33}, Shape{9, 1000}, Shape{4500, 2}, Shape{530, 257},
                             Shape{150, 1500}, Shape{3, 1025}, Shape{2, 5, 4, 3}, Shape{1, 1}}) {
    INFO(str(shape));
    Shape dims;
    for (int i = 1; i < shape.rank(); ++i) dims.push_back(shape[i]);
    const Tensor x = randn(shape) + 1, w = randn(dims), b = randn(dims);
    check_alike({x, w, b}, [&](const std::vector<Tensor>& t) {
      return layer_norm(t[0], dims, {.weight = t[1], .bias = t[2]});
    });
    check_alike({x, w}, [&](const std::vector<Tensor>& t) {
      return layer_norm(t[0], dims, {.weight = t[1], .bias = t[1].detach()});
    });
    check_alike({x, b}, [&](const std::vector<Tensor>& t) {
      return layer_norm(t[0], dims, {.weight = t[1].detach(), .bias = t[1]});
    });
    check_alike({x}, [&](const std::vector<Tensor>& t) {
      return layer_norm(t[0], dims, {.weight = w.to(t[0].device())});
    });
    check_alike({x, w}, [&](const std::vector<Tensor>& t) {
      return rms_norm(t[0], dims, {.weight = t[1]});
    });
    check_alike({x}, [&](const std::vector<Tensor>& t) { return rms_norm(t[0], dims); });
  }
}

TEST_CASE("gradients of norms of rows have the same bits in every run", "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(7);
  for (const DType dtype : {f32, bf16})
    for (const Shape& shape : {Shape{1100, 96}, Shape{300, 1100}}) {
      const std::vector<Tensor> operands{randn(shape).to(dtype), randn({shape[1]}),
                                         randn({shape[1]})};
      const auto norm = [&](const std::vector<Tensor>& t) {
        return layer_norm(t[0], {shape[1]}, {.weight = t[1], .bias = t[2]});
      };
      const std::vector<Tensor> first = results_on(kDevice, operands, norm);
      for (int run = 0; run < 3; ++run) {
        const std::vector<Tensor> again = results_on(kDevice, operands, norm);
        for (std::size_t i = 0; i < first.size(); ++i)
          CHECK(again[i].to_vector<double>() == first[i].to_vector<double>());
      }
    }
}

namespace {

/** Returns classes in turn; every seventh target is ignored. */
Tensor targets_of(const Shape& x) {
  Shape shape{x[0]};
  for (int i = 2; i < x.rank(); ++i) shape.push_back(x[i]);
  std::vector<double> classes;
  for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i)
    classes.push_back(i % 7 == 6 ? -100 : static_cast<double>(i * 37 % x[1]));
  return tensor(classes, shape, {.dtype = i64});
}

}  // namespace

TEST_CASE("cross entropy of few long lines and of many short ones agrees with the CPU's",
          "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(8);
  for (const Shape& shape : {Shape{16, 5003}, Shape{1, 9000}, Shape{2, 4099, 3}, Shape{5000, 7},
                             Shape{40, 300}, Shape{3, 4}}) {
    INFO(str(shape));
    const Tensor x = randn(shape) * 3, target = targets_of(shape), weight = rand({shape[1]}) + 0.5;
    for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none})
      for (const double smoothing : {0.0, 0.1})
        for (const bool weighs : {false, true})
          check_alike({x}, [&](const std::vector<Tensor>& t) {
            const Device device = t[0].device();
            return cross_entropy(t[0], target.to(device),
                                 {.weight = weighs ? weight.to(device) : Tensor{},
                                  .reduction = reduction,
                                  .label_smoothing = smoothing});
          });
  }
}

TEST_CASE("cross entropy of long lines propagates -inf classes, infinities and nan",
          "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(9);
  const auto loss_of = [](const Tensor& x, Device device) {
    const Tensor on = x.to(device).requires_grad_();
    const Tensor y = cross_entropy(on, zeros({x.size(0)}, {.dtype = i64, .device = device}),
                                   {.reduction = Reduction::none});
    return std::pair{y.detach().to(cpu), grad(sum(y), on).to(cpu)};
  };
  const Tensor x = randn({5, 8000});
  constexpr double kInf = std::numeric_limits<double>::infinity();
  x.select(0, 0).narrow(0, 2000, 6000).fill_(-kInf);  // whole chunks of -inf
  x.select(0, 1).fill_(-kInf);
  x.select(0, 2).narrow(0, 5000, 1).fill_(kInf);
  x.select(0, 3).narrow(0, 7000, 1).fill_(std::numeric_limits<double>::quiet_NaN());
  const auto [loss, gradient] = loss_of(x, kDevice);
  const auto [expected, slope] = loss_of(x, cpu);
  CHECK(isfinite(loss).to_vector<double>() == isfinite(expected).to_vector<double>());
  CHECK(isfinite(loss).to_vector<double>() == std::vector<double>{1, 0, 0, 0, 1});
  CHECK(isfinite(gradient).to_vector<double>() == isfinite(slope).to_vector<double>());
  for (const std::int64_t line : {0, 4}) {
    CHECK(distance(loss[line], expected[line]) < 1e-5);
    CHECK(distance(gradient[line], slope[line]) < 1e-5);
  }
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
    return avg_pool2d(
        t[0], {9, 5},
        {.stride = {1, 3}, .padding = {2, 2}, .ceil_mode = true, .count_include_pad = false});
  });
  for (const std::int64_t n : {1, 2, 17, 37, 50}) {
    INFO(n);
    check_alike({x},
                [n](const std::vector<Tensor>& t) { return adaptive_avg_pool2d(t[0], {n, n}); });
    check_alike({x},
                [n](const std::vector<Tensor>& t) { return adaptive_max_pool2d(t[0], {n, 1}); });
  }
}

TEST_CASE("gradients of placed elements and blocks return to their sources", "[gpu][large]") {
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
    for (const Shape& size :
         {Shape{38, 46}, Shape{7, 5}, Shape{1, 400}, Shape{19, 23}, Shape{20, 1}}) {
      const bool smooth = mode == InterpolateMode::bilinear || mode == InterpolateMode::bicubic;
      for (const bool align : {false, true})
        for (const bool antialias : {false, true}) {
          if ((align || antialias) && !smooth) continue;
          INFO(static_cast<int>(mode) << " " << str(size) << " " << align << antialias);
          check_alike({x}, [&](const std::vector<Tensor>& t) {
            return interpolate(t[0], {.size = {size[0], size[1]},
                                      .mode = mode,
                                      .align_corners = align,
                                      .antialias = antialias});
          });
        }
    }
}

TEST_CASE("grid_sample at scattered positions agrees with the CPU's, including infinite gradients",
          "[gpu][large]") {
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
  int turn = 0;
  for (const DType dtype : {f32, f16, bf16})  // 16-bit: Tensor Cores up to width 128
    for (const std::int64_t width : {40, 120, 150}) {
      // every dtype, every width, and every second pair of them
      if (testing::is_slow(kDevice) && turn++ % 2 != 0) continue;
      const Tensor q = randn({1, 2, 130, width}).to(dtype), k = randn({1, 1, 75, width}).to(dtype),
                   v = randn({1, 2, 75, width - 7}).to(dtype);
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
      if (!testing::is_slow(kDevice)) check({q, k, v}, {});
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
  const auto weights = [](const std::vector<Tensor>& t) {
    return RecurrentWeights{t[2], t[3], t[4], t[5]};
  };
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

TEST_CASE("recurrent layers agree with the CPU's, with and without cuDNN", "[gpu][large]") {
  NEED_DEVICE();
  manual_seed(10);
  for (const bool any_bits : {false, true})
    for (const std::int64_t hidden : {70, 128}) {
      if (testing::is_slow(kDevice) && any_bits == (hidden == 128)) continue;
      set_allow_nondeterministic(any_bits);
      const auto operands = [&](std::int64_t gates) {
        return std::vector<Tensor>{randn({9, 6, 128}),
                                   randn({1, 6, hidden}) * 0.5,
                                   randn({1, 6, hidden}) * 0.5,
                                   randn({gates * hidden, 128}) * 0.1,
                                   randn({gates * hidden, hidden}) * 0.1,
                                   randn({gates * hidden}) * 0.1,
                                   randn({gates * hidden}) * 0.1};
      };
      const auto weights = [](const std::vector<Tensor>& t) {
        return std::vector{RecurrentWeights{t[3], t[4], t[5], t[6]}};
      };
      INFO("hidden " << hidden << " any bits " << any_bits);
      check_alike(operands(1), [&](const std::vector<Tensor>& t) {
        return rnn_tanh(t[0], t[1], weights(t)).output + rnn_relu(t[0], t[2], weights(t)).output;
      });
      check_alike(operands(3), [&](const std::vector<Tensor>& t) {
        return gru(t[0], t[1], weights(t)).output + t[2] * 0;
      });
      const std::vector<Tensor> four = operands(4);
      const auto layer = [&](const std::vector<Tensor>& t) {
        return lstm(t[0], {t[1], t[2]}, weights(t)).output;
      };
      check_alike(four, layer);
      for (const DType dtype : {f16, bf16}) {
        std::vector<Tensor> narrow;
        for (const Tensor& x : four) narrow.push_back(x.to(dtype));
        check_alike(narrow, layer, dtype == f16 ? 2e-2 : 1.5e-1);
      }
    }
  set_allow_nondeterministic(false);
}
