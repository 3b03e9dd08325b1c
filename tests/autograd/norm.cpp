// Norms where the generated op tests do not reach: running statistics, mixed dtypes, threads,
// invalid arguments.
#include <cmath>

#include <mezzo.h>

#include "../../tensor/device/parallel.h"
#include "../support/same_bits.h"

using namespace mezzo;
using testing::same_bits;

namespace {

Tensor waves(const Shape& shape, DType dtype = f32) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(std::sin(static_cast<double>(i * i % 1009)) + 0.5);
  return tensor(values, shape, {.dtype = dtype});
}

}  // namespace

TEST_CASE("batch_norm updates its running statistics with the unbiased variance of the batch",
          "[norm]") {
  const Tensor x = tensor({1., 10, 2, 20, 6, 30}, {3, 2}), running_mean = full({2}, 1),
               running_var = full({2}, 4);
  const std::uint32_t version = running_mean.version();
  batch_norm(x, {.running_mean = running_mean,
                 .running_var = running_var,
                 .training = true,
                 .momentum = 0.25});
  const std::vector<double> m = running_mean.to_vector<double>(),
                            v = running_var.to_vector<double>();
  CHECK(m[0] == Approx(0.75 * 1 + 0.25 * 3));
  CHECK(m[1] == Approx(0.75 * 1 + 0.25 * 20));
  CHECK(v[0] == Approx(0.75 * 4 + 0.25 * 7));
  CHECK(v[1] == Approx(0.75 * 4 + 0.25 * 100));
  CHECK(running_mean.version() == version + 1);
  batch_norm(x, {.running_mean = running_mean, .running_var = running_var});
  CHECK(running_mean.version() == version + 1);
}

TEST_CASE("batch_norm of 16-bit activations uses f32 weights and statistics", "[norm]") {
  for (const DType dtype : {f16, bf16}) {
    const Tensor x = waves({16, 3, 5}, dtype).requires_grad_(), mean = zeros({3}), var = ones({3});
    const Tensor weight = full({3}, 1.5).requires_grad_(), bias = full({3}, -0.25).requires_grad_();
    const BatchNormOptions options{
        .running_mean = mean, .running_var = var, .weight = weight, .bias = bias, .training = true};
    const Tensor y = batch_norm(x, options);
    CHECK(y.dtype() == dtype);
    sum(y.to(f32) * waves({16, 3, 5})).backward();
    CHECK(x.grad().dtype() == dtype);
    CHECK(weight.grad().dtype() == f32);
    CHECK(mean.dtype() == f32);
    // Exactly the f32 result of the same values, rounded once.
    const Tensor wide =
        batch_norm(x.detach().to(f32), {.weight = weight, .bias = bias, .training = true});
    CHECK(same_bits(y, wide.to(dtype)));
  }
}

TEST_CASE("a failing batch_norm leaves the running statistics unchanged", "[norm]") {
  const Tensor mean = full({2}, 1), var = full({2}, 2);
  const auto options = [&](Tensor weight, double eps = 1e-5) {
    return BatchNormOptions{
        .running_mean = mean, .running_var = var, .weight = weight, .training = true, .eps = eps};
  };
  CHECK_THROWS_AS(batch_norm(zeros({4, 2}), options(zeros({3}))), ShapeError);
  CHECK_THROWS_AS(batch_norm(zeros({1, 2}), options({})), ShapeError);
  CHECK_THROWS_AS(batch_norm(zeros({4, 3}), options({})), ShapeError);
  CHECK_THROWS_AS(batch_norm(zeros({4}), options({})), ShapeError);
  CHECK_THROWS_AS(batch_norm(zeros({4, 2}, {.dtype = i64}), options({})), DtypeError);
  CHECK_THROWS_AS(batch_norm(zeros({4, 2}), options(zeros({2}, {.dtype = i64}))), DtypeError);
  CHECK_THROWS_AS(batch_norm(zeros({4, 2}), options({}, -1)), ValueError);
  CHECK_THROWS_AS(batch_norm(zeros({4, 2})), ValueError);
  const Tensor one_place = zeros({1}).expand({2});
  CHECK_THROWS_AS(
      batch_norm(zeros({4, 2}), {.running_mean = mean, .running_var = one_place, .training = true}),
      ValueError);
  CHECK(mean.version() == full({2}, 1).version());
  CHECK(mean.to_vector<double>() == std::vector<double>{1, 1});
  CHECK(var.to_vector<double>() == std::vector<double>{2, 2});
}

TEST_CASE("a later training step does not change the gradient of an earlier one", "[norm]") {
  const Tensor x = waves({4, 2}).requires_grad_(), mean = zeros({2}), var = ones({2});
  const Tensor first =
      sum(batch_norm(x, {.running_mean = mean, .running_var = var, .training = true}) * x);
  batch_norm(x, {.running_mean = mean, .running_var = var, .training = true});
  CHECK_NOTHROW(first.backward());
}

TEST_CASE("norms and their gradients have the same bits for any number of threads", "[norm]") {
  const int before = num_threads();
  for (const Shape& shape :
       {Shape{2000, 32}, Shape{3, 300, 40}, Shape{64, 16, 14, 14}, Shape{2, 4, 300, 30}}) {
    const Tensor values = waves(shape), seed = waves(shape) * 0.5;
    const bool images = may_be_channels_last(shape.rank());
    const auto run = [&](int threads) {
      set_num_threads(threads);
      std::vector<Tensor> results;
      for (int kind = images ? -1 : 0; kind < 4; ++kind) {
        const Tensor x =
            (kind < 0 ? values.clone().to(MemoryFormat::channels_last) : values.clone())
                .requires_grad_();
        const Tensor y = kind <= 0   ? batch_norm(x, {.training = true})
                         : kind == 1 ? group_norm(x, 4 < shape[1] ? 4 : 2)
                         : kind == 2 ? layer_norm(x, {shape.back()})
                                     : rms_norm(x, {shape.back()});
        y.backward(seed);
        results.push_back(y);
        results.push_back(x.grad());
      }
      return results;
    };
    const std::vector<Tensor> one = run(1);
    for (const int threads : {2, 4, 8}) {
      const std::vector<Tensor> many = run(threads);
      for (std::size_t k = 0; k < one.size(); ++k) {
        INFO(str(shape) << " result " << k << " on " << threads << " threads");
        CHECK(same_bits(one[k], many[k]));
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("instance_norm updates running statistics with the mean over the samples", "[norm]") {
  const Tensor x = tensor({1, 3, 10, 30, 5, 9, 2, 2.5}, {2, 2, 2}), mean = zeros({2}),
               var = zeros({2});
  instance_norm(x, {.running_mean = mean, .running_var = var, .momentum = 1});
  CHECK(mean.to_vector<double>()[0] == Approx((2.0 + 7.0) / 2));
  CHECK(var.to_vector<double>()[1] == Approx((200.0 + 0.125) / 2));
  CHECK_THROWS_AS(instance_norm(zeros({3, 2})), ShapeError);
  CHECK_THROWS_AS(instance_norm(zeros({3, 2, 1})), ShapeError);
}

TEST_CASE("layer_norm and group_norm reject bad shapes", "[norm]") {
  CHECK_THROWS_AS(layer_norm(zeros({2, 3}), {4}), ShapeError);
  CHECK_THROWS_AS(layer_norm(zeros({3}), {2, 3}), ShapeError);
  CHECK_THROWS_AS(layer_norm(zeros({2, 3}), Shape{}), ShapeError);
  CHECK_THROWS_AS(layer_norm(zeros({2, 3}), {3}, {.weight = zeros({2})}), ShapeError);
  CHECK_THROWS_AS(layer_norm(zeros({2, 3}, {.dtype = i32}), {3}), DtypeError);
  CHECK_THROWS_AS(group_norm(zeros({2, 6}), 4), ShapeError);
  CHECK_THROWS_AS(group_norm(zeros({2, 6}), 0), ValueError);
  CHECK_THROWS_AS(rms_norm(zeros({2, 3}), {2}), ShapeError);
}

TEST_CASE("norms of empty tensors have zero gradients", "[norm]") {
  const Tensor x = zeros({0, 4}).requires_grad_(), w = ones({4}).requires_grad_();
  (sum(layer_norm(x, {4}, {.weight = w})) + sum(batch_norm(x, {.weight = w, .training = true})) +
   sum(group_norm(x, 2, {.weight = w})))
      .backward();
  CHECK(x.grad().shape() == Shape{0, 4});
  CHECK(w.grad().to_vector<double>() == std::vector<double>{0, 0, 0, 0});
  CHECK(layer_norm(zeros({3, 0}), {0}).shape() == Shape{3, 0});
}
