// Batch norm, group norm and pooling on 16-byte packs, on any device: row-major and
// channels-last, in training and in evaluation.
#include "../support/catch.h"
#include "../support/same_bits.h"
#include "packed.h"

using namespace mezzo;
using namespace packed;

namespace {

/** Returns x, weight and bias of a batch norm. */
std::vector<Tensor> batch_operands(const Shape& shape, DType dtype, DType weight) {
  return {(randn(shape) * 2 + 0.5).to(dtype), (randn({shape[1]}) + 1).to(weight),
          randn({shape[1]}).to(weight)};
}

void check_batch_norm(const std::vector<Tensor>& operands, bool training, bool channels_last) {
  packed::check(operands, [=](const std::vector<Tensor>& t) {
    const std::int64_t channels = t[0].size(1);
    const TensorOptions of{.device = t[0].device()};
    const Tensor mean = arange(static_cast<double>(channels)).to(f32).to(t[0].device()) / 8,
                 var = full({channels}, 1.5, of);
    BatchNormOptions options{.training = training};
    if (!training) {
      options.running_mean = mean;
      options.running_var = var;
    }
    if (t.size() > 1) {
      options.weight = t[1];
      options.bias = t[2];
    }
    return batch_norm(channels_last ? t[0].to(MemoryFormat::channels_last) : t[0], options);
  });
}

void check_group_norm(const std::vector<Tensor>& operands, std::int64_t groups) {
  packed::check(operands, [=](const std::vector<Tensor>& t) {
    GroupNormOptions options;
    if (t.size() > 1) {
      options.weight = t[1];
      options.bias = t[2];
    }
    return group_norm(t[0], groups, options);
  });
}

void check_max_pool(const Tensor& x, bool channels_last, const MaxPoolOptions& options) {
  packed::check({x}, [&](const std::vector<Tensor>& t) {
    return max_pool2d(channels_last ? t[0].to(MemoryFormat::channels_last) : t[0], 3, options);
  });
}

/** Checks means of windows and means that divide the image, or nearly. */
void check_mean_pools(const Tensor& x, bool channels_last) {
  const auto check = [&](auto pool) {
    packed::check({x}, [&](const std::vector<Tensor>& t) {
      return pool(channels_last ? t[0].to(MemoryFormat::channels_last) : t[0]);
    });
  };
  for (const AvgPoolOptions& options :
       {AvgPoolOptions{},
        {.stride = 1},
        {.stride = 2, .padding = 1},
        {.stride = 2, .padding = 1, .count_include_pad = false},
        {.stride = {3, 2}, .padding = {0, 1}, .ceil_mode = true},
        {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false},
        {.divisor_override = 7}})
    check([&](const Tensor& t) { return avg_pool2d(t, 3, options); });
  check([](const Tensor& t) { return avg_pool2d(t, {1, 4}, {.stride = {2, 3}}); });
  for (const WindowSizes& sizes : {WindowSizes{1}, WindowSizes{2}, WindowSizes{3, 4}})
    check([&](const Tensor& t) { return adaptive_avg_pool2d(t, sizes); });
}

/** Returns the gradients of a batch norm, with relu unless `plain`, before a max pooling of 2 x 2,
 *  the last two dimensions; `reads`: a hook reads the gradient that the norm gets. */
std::vector<Tensor> gradients_before_pooling(const std::vector<Tensor>& operands, const Tensor& g,
                                             bool training, bool plain, bool reads) {
  const Tensor x = operands[0].detach().requires_grad_(),
               weight = operands[1].detach().requires_grad_(),
               bias = operands[2].detach().requires_grad_();
  BatchNormOptions options{.weight = weight, .bias = bias, .training = training};
  if (!training) {
    options.running_mean = full({x.size(1)}, 0.25, {.device = kDevice});
    options.running_var = full({x.size(1)}, 1.5, {.device = kDevice});
  }
  const Tensor y = plain ? batch_norm(x, options) : batch_norm_relu(x, options);
  if (reads)
    register_hook(y, [](const Tensor& gy) {
      (void)gy.to_vector<double>();
      return Tensor{};
    });
  max_pool2d(y, 2).backward(g);
  return {x.grad(), weight.grad(), bias.grad()};
}

}  // namespace

TEST_CASE("batch norms of packs agree with the CPU's in f64", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(41);
  for (const DType dtype : kDtypes)
    for (const bool training : {true, false})
      for (const bool channels_last : {false, true}) {
        // packs of one position and of several, an odd number of positions, whole blocks; half
        // packs in 16 bits: of one position and of several, an odd number of them
        for (const Shape& shape :
             {Shape{2, 16, 2, 4}, Shape{3, 24, 8, 10}, Shape{5, 8, 3, 3}, Shape{2, 3, 40, 48},
              Shape{1, 8, 1, 8}, Shape{3, 5, 2, 2}, Shape{7, 3, 14, 14}, Shape{1, 1, 1, 12}}) {
          const std::vector<Tensor> all = batch_operands(shape, dtype, f32);
          check_batch_norm(all, training, channels_last);
          check_batch_norm({all[0]}, training, channels_last);
        }
        check_batch_norm(batch_operands({2, 16, 4, 4}, dtype, dtype), training, channels_last);
      }
}

TEST_CASE("batch norms of packs with channels of several blocks agree with the CPU's",
          "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(42);
  for (const DType dtype : {bf16, f32})
    for (const bool training : {true, false})
      for (const std::int64_t width : {128, 127 * 4})
        check_batch_norm(batch_operands({9, 2, width == 128 ? 128 : 33, width}, dtype, f32),
                         training, false);
}

TEST_CASE("group norms of packs agree with the CPU's in f64", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(43);
  for (const DType dtype : kDtypes) {
    // packs of one position and of several, groups of one channel, one group, several blocks
    for (const Shape& shape :
         {Shape{2, 16, 2, 4}, Shape{3, 24, 8, 10}, Shape{5, 8, 3, 3}, Shape{1, 8, 8},
          Shape{2, 8, 64, 64}, Shape{3, 8, 2, 2}, Shape{2, 4, 14, 14}})
      for (const std::int64_t groups : {std::int64_t{1}, std::int64_t{4}, shape[1]}) {
        const std::vector<Tensor> all = batch_operands(shape, dtype, f32);
        check_group_norm(all, groups);
        check_group_norm({all[0]}, groups);
      }
    check_group_norm(batch_operands({2, 16, 4, 4}, dtype, dtype), 2);
  }
}

TEST_CASE("batch norms of packs have no gradient through given statistics", "[gpu][packed]") {
  NEED_DEVICE();
  for (const bool channels_last : {false, true}) {
    const Tensor x = ones({2, 8, 2, 4}, {.dtype = f16});
    x.select(0, 0).fill_(NAN);
    const Tensor there = x.to(kDevice).requires_grad_();
    const TensorOptions of{.device = kDevice};
    const Tensor y =
        batch_norm(channels_last ? there.to(MemoryFormat::channels_last) : there,
                   {.running_mean = zeros({8}, of), .running_var = ones({8}, of), .eps = 0});
    for (const double g : grad({sum(y)}, {there})[0].to(cpu).to_vector<double>()) CHECK(g == 1);
  }
}

TEST_CASE("gradients of max pooling agree with the CPU's in f64", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(43);
  for (const DType dtype : kDtypes)
    for (const bool channels_last : {false, true})
      for (const Shape& shape : {Shape{2, 16, 9, 7}, Shape{1, 5, 12, 8}, Shape{3, 8, 4, 4},
                                 Shape{2, 27, 13, 13}, Shape{0, 8, 7, 7}}) {
        const Tensor x = randn(shape).to(dtype);
        for (const MaxPoolOptions& options : {MaxPoolOptions{},
                                              {.stride = 2, .padding = 1},
                                              {.stride = 1, .padding = 1},
                                              {.stride = 2, .padding = 1, .ceil_mode = true}})
          check_max_pool(x, channels_last, options);
        if (shape[2] > 8) {
          check_max_pool(x, channels_last, {.stride = 1, .dilation = 3});
          check_max_pool(x, channels_last, {.stride = {3, 2}, .padding = 1, .dilation = {2, 1}});
        }
      }
}

TEST_CASE("means of windows of planes agree with the CPU's in f64", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(44);
  for (const DType dtype : kDtypes)
    for (const bool channels_last : {false, true})
      for (const Shape& shape : {Shape{2, 16, 9, 8}, Shape{1, 5, 12, 8}, Shape{3, 8, 4, 4},
                                 Shape{2, 27, 13, 7}, Shape{0, 8, 6, 8}})
        check_mean_pools(randn(shape).to(dtype), channels_last);
}

TEST_CASE("means of windows take large divisors and sums that overflow", "[gpu][packed]") {
  NEED_DEVICE();
  const Tensor x = full({1, 8, 4, 4}, 0x1p30).to(kDevice);
  constexpr std::int64_t kDivisor = (std::int64_t{1} << 32) + (std::int64_t{1} << 31);
  for (const bool channels_last : {false, true}) {
    const Tensor image = channels_last ? x.to(MemoryFormat::channels_last) : x;
    for (const double mean :
         avg_pool2d(image, 2, {.divisor_override = kDivisor}).to(cpu).to_vector<double>())
      CHECK(mean == Approx(0x1p32 / static_cast<double>(kDivisor)));
    const Tensor large = full_like(image, 3e38);
    for (const double mean : avg_pool2d(large, 2).to(cpu).to_vector<double>())
      CHECK(mean == Approx(3e38));
  }
}

namespace {

/** Returns the values of a max pooling, the indices, and the gradients with and without indices. */
std::vector<Tensor> pooled(const Tensor& x, const WindowSizes& kernel,
                           const MaxPoolOptions& options) {
  const Tensor leaf = x.detach().requires_grad_(), y = max_pool2d(leaf, kernel, options);
  const ValuesAndIndices both = max_pool2d_with_indices(leaf, kernel, options);
  const Tensor g = remainder(arange(static_cast<double>(y.numel())), 5)
                       .reshape(y.shape())
                       .to(y.dtype())
                       .to(y.device());
  NoGrad no_grad;
  const Tensor inferred = max_pool2d(x, kernel, options);
  return {y.detach(),   both.values.detach(),          inferred,
          both.indices, grad({y}, {leaf}, {}, {g})[0], grad({both.values}, {leaf}, {}, {g})[0]};
}

}  // namespace

TEST_CASE("max pooling has the CPU's bits: ties, nan, infinities", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(45);
  struct Windows {
    WindowSizes kernel;
    MaxPoolOptions options;
  };
  // side by side, with rests, overlapping, padded, dilated, larger than 255 elements, of one row
  const Windows all[] = {{2, {}},
                         {3, {}},
                         {3, {.stride = 2, .padding = 1}},
                         {3, {.stride = 2, .padding = 1, .ceil_mode = true}},
                         {2, {.stride = 1, .dilation = 2}},
                         {{2, 3}, {.stride = {1, 2}, .padding = {0, 1}, .dilation = {2, 1}}},
                         {5, {.stride = 3, .padding = 2}},
                         {{1, 2}, {}},
                         {{12, 20}, {.padding = {6, 10}}},
                         {{12, 25}, {.padding = {6, 12}}}};
  for (const DType dtype : {f16, bf16, f32, f64})
    for (const Shape& shape : {Shape{2, 3, 12, 16}, Shape{1, 8, 13, 27}, Shape{3, 27, 14, 14},
                               Shape{2, 16, 7, 26}, Shape{0, 8, 6, 30}}) {
      // few distinct values, so that windows have several maxima
      Tensor x = randint(-3, 4, shape).to(dtype);
      if (x.numel() > 0) {
        const Tensor flat = x.view({x.numel()});
        flat.slice(0, 5, x.numel(), 23).fill_(NAN);
        flat.slice(0, 8, x.numel(), 29).fill_(-INFINITY);
        flat.slice(0, 9, x.numel(), 31).fill_(INFINITY);
        flat.slice(0, 11, x.numel(), 7).fill_(-0.0);
      }
      for (const Windows& w : all) {
        for (const bool channels_last : {false, true}) {
          INFO(name(dtype) << " " << str(shape) << (channels_last ? " channels-last" : ""));
          const Tensor there = x.to(kDevice).to(channels_last ? MemoryFormat::channels_last
                                                              : MemoryFormat::contiguous);
          const std::vector<Tensor> expected = pooled(x, w.kernel, w.options),
                                    got = pooled(there, w.kernel, w.options),
                                    other = pooled(unaligned(there), w.kernel, w.options);
          for (std::size_t i = 0; i < expected.size(); ++i) {
            INFO("result " << i);
            CHECK(testing::same_bits(got[i].to(cpu), expected[i]));
            CHECK(testing::same_bits(other[i].to(cpu), expected[i]));
          }
        }
      }
    }
}

TEST_CASE("gradients of max pooling over one and three dimensions agree with the CPU's",
          "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(44);
  for (const DType dtype : kDtypes) {
    packed::check({randn({2, 3, 20}).to(dtype)}, [](const std::vector<Tensor>& t) {
      return max_pool1d(t[0], 3, {.stride = 2, .padding = 1});
    });
    packed::check({randn({2, 3, 4, 6, 5}).to(dtype)},
                  [](const std::vector<Tensor>& t) { return max_pool3d(t[0], 2, {.stride = 1}); });
  }
}

TEST_CASE("gradients of a batch norm before max pooling have the bits of both ops",
          "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(46);
  // rows of packs and of half packs, packs of two rows, channels of several blocks, an odd number
  // of rows of windows, sizes for which the gradient of the pooling is computed
  for (const Shape& shape :
       {Shape{4, 8, 28, 28}, Shape{3, 5, 14, 14}, Shape{2, 3, 2, 8}, Shape{2, 3, 6, 10},
        Shape{9, 2, 128, 130}, Shape{2, 3, 4, 6}, Shape{2, 3, 7, 16}, Shape{6, 8, 16}})
    for (const DType dtype : {f16, bf16, f32, f64})
      for (const bool training : {true, false})
        for (const bool plain : {false, true}) {
          std::vector<Tensor> operands = batch_operands(shape, dtype, f32);
          for (Tensor& x : operands) x = x.to(kDevice);
          Tensor g = randn(max_pool2d(operands[0], 2).shape()).to(dtype);
          g.view({g.numel()}).slice(0, 3, g.numel(), 7).fill_(-0.0);
          g = g.to(kDevice);
          INFO(name(dtype) << " " << str(shape) << (training ? "" : " in evaluation")
                           << (plain ? " without relu" : ""));
          const std::vector<Tensor> late = gradients_before_pooling(operands, g, training, plain,
                                                                    false),
                                    read = gradients_before_pooling(operands, g, training, plain,
                                                                    true);
          for (std::size_t i = 0; i < read.size(); ++i) {
            INFO("gradient " << i);
            CHECK(testing::same_bits(late[i], read[i]));
          }
        }
}

TEST_CASE("a gradient of max pooling that is not finite reaches the batch norm before it",
          "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(47);
  std::vector<Tensor> operands = batch_operands({2, 4, 8, 8}, f16, f32);
  for (Tensor& x : operands) x = x.to(kDevice);
  for (const double value : {static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
    Tensor g = ones({2, 4, 4, 4}).to(f16);
    g.view({g.numel()}).slice(0, 5, 6).fill_(value);
    g = g.to(kDevice);
    const std::vector<Tensor> late = gradients_before_pooling(operands, g, true, false, false),
                              read = gradients_before_pooling(operands, g, true, false, true);
    for (std::size_t i = 0; i < read.size(); ++i) CHECK(testing::same_bits(late[i], read[i]));
    CHECK_FALSE(std::isfinite(late[0].to(cpu).to_vector<double>()[0]));
  }
}
