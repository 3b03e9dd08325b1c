// Batch norm, group norm and max pooling on 16-byte packs, on any device: row-major and
// channels-last, in training and in evaluation.
#include "../support/catch.h"
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

}  // namespace

TEST_CASE("batch norms of packs agree with the CPU's in f64", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(41);
  for (const DType dtype : kDtypes)
    for (const bool training : {true, false})
      for (const bool channels_last : {false, true}) {
        // packs of one position and of several, an odd number of positions, whole blocks
        for (const Shape& shape : {Shape{2, 16, 2, 4}, Shape{3, 24, 8, 10}, Shape{5, 8, 3, 3},
                                   Shape{2, 3, 40, 48}, Shape{1, 8, 1, 8}}) {
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
      check_batch_norm(batch_operands({9, 2, 128, 128}, dtype, f32), training, false);
}

TEST_CASE("group norms of packs agree with the CPU's in f64", "[gpu][packed]") {
  NEED_DEVICE();
  manual_seed(43);
  for (const DType dtype : kDtypes) {
    // packs of one position and of several, groups of one channel, one group, several blocks
    for (const Shape& shape : {Shape{2, 16, 2, 4}, Shape{3, 24, 8, 10}, Shape{5, 8, 3, 3},
                               Shape{1, 8, 8}, Shape{2, 8, 64, 64}})
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
      for (const Shape& shape : {Shape{2, 16, 9, 7}, Shape{1, 5, 12, 8}, Shape{3, 8, 4, 4}}) {
        const Tensor x = randn(shape).to(dtype);
        for (const MaxPoolOptions& options : {MaxPoolOptions{},
                                              {.stride = 2, .padding = 1},
                                              {.stride = 1, .padding = 1},
                                              {.stride = 2, .padding = 1, .ceil_mode = true}})
          check_max_pool(x, channels_last, options);
        if (shape[2] > 8) check_max_pool(x, channels_last, {.stride = 1, .dilation = 3});
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
