// The kernels of batch norm over several ranks, in a group of one: they give what batch norm gives.
// ../parallel/sync_batch_norm_values.cpp tests several ranks.
#include <mezzo.h>

#include <cmath>
#include <limits>

#include "../../tensor/core/dispatch.h"
#include "../../tensor/core/registry.h"
#include "../support/catch.h"
#include "../support/device.h"

using namespace mezzo;
using mezzo::testing::test_device;

namespace {

double norm_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-12;
    case DType::f16: return 0x1p-9;
    case DType::bf16: return 0x1p-6;
    case DType::f32: return 2e-5;
    case DType::boolean:
    case DType::u8:
    case DType::i32:
    case DType::i64: break;  // exact
  }
  return 0;
}

/** Returns the largest |a - b|, divided by the largest |b| if that is above 1; infinity for NaN. */
double relative_distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const auto x = a.detach().to(cpu).to_vector<double>(), y = b.detach().to(cpu).to_vector<double>();
  double most = 0, size = 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i] - y[i])) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::fabs(x[i] - y[i]));
    size = std::max(size, std::fabs(y[i]));
  }
  return most / size;
}

Tensor random_tensor(const Shape& shape, DType dtype,
                     MemoryFormat format = MemoryFormat::contiguous) {
  return randn(shape, {.dtype = f64}).to(dtype).to(test_device()).contiguous(format);
}

/** The operands of one call, and what it changes. */
struct NormCall {
  Tensor x, weight, bias, mean, var;

  NormCall(const Tensor& values, const Tensor& w, const Tensor& b)
      : x(values.clone().requires_grad_()),
        weight(w.defined() ? w.clone().requires_grad_() : w),
        bias(b.defined() ? b.clone().requires_grad_() : b),
        mean(zeros({x.size(1)}, {.device = test_device()})),
        var(ones({x.size(1)}, {.device = test_device()})) {}

  BatchNormOptions options() const {
    return {.running_mean = mean,
            .running_var = var,
            .weight = weight,
            .bias = bias,
            .training = true,
            .momentum = 0.25,
            .eps = 1e-3};
  }
};

void check_like_batch_norm(const Tensor& x, bool affine) {
  const double near = norm_tolerance(x.dtype());
  const Tensor w = affine ? random_tensor({x.size(1)}, f32) : Tensor{},
               b = affine ? w * 0.5 : Tensor{};
  const NormCall ours(x, w, b), plain(x, w, b);
  const Tensor y = detail::sync_batch_norm(ours.x, ours.options(), comm::Communicator());
  const Tensor expected = batch_norm(plain.x, plain.options());
  CHECK(y.dtype() == x.dtype());
  CHECK(y.memory_format() == expected.memory_format());
  CHECK(relative_distance(y, expected) < near);
  const Tensor g = random_tensor(x.shape(), x.dtype());
  y.backward(g);
  expected.backward(g);
  CHECK(ours.x.grad().memory_format() == plain.x.grad().memory_format());
  CHECK(relative_distance(ours.x.grad(), plain.x.grad()) < near);
  if (affine) {
    CHECK(relative_distance(ours.weight.grad(), plain.weight.grad()) < near);
    CHECK(relative_distance(ours.bias.grad(), plain.bias.grad()) < near);
  }
  CHECK(relative_distance(ours.mean, plain.mean) < 1e-6);
  CHECK(relative_distance(ours.var, plain.var) < 1e-6);
}

/** Returns the results of an op without attributes. */
std::vector<Tensor> run_registered(std::string_view name, std::vector<Tensor> operands,
                                   std::size_t results) {
  std::vector<Tensor> out(results);
  const NoAttrs none;
  run(*find_op(name), operands, out, &none);
  return out;
}

/** Returns means, sums of squared deviations and count. */
std::vector<double> moments(const Tensor& x) {
  return run_registered("channel_moments", {x, {}, {}, {}, {}, {}}, 1)[0]
      .to(cpu)
      .to_vector<double>();
}

}  // namespace

TEST_CASE("batch norm over a group of one rank gives what batch norm gives", "[ops]") {
  manual_seed(1);
  const std::vector<Shape> shapes{{5, 3},          {4, 3, 7},      {3, 5, 4, 6},
                                  {2, 3, 2, 3, 4}, {300, 70},      {2, 3, 70, 90},
                                  {2, 257, 3, 2},  {40, 1, 33, 5}, {6, 100, 1, 1}};
  for (const Shape& shape : shapes)
    for (const DType dtype : {f32, f64, f16, bf16})
      for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
        if (format == MemoryFormat::channels_last && !may_be_channels_last(shape.rank())) continue;
        INFO(str(shape) << " " << name(dtype) << " " << name(format));
        check_like_batch_norm(random_tensor(shape, dtype, format), true);
        check_like_batch_norm(random_tensor(shape, dtype, format), false);
      }
  check_like_batch_norm(random_tensor({4, 6, 5, 8}, f32).narrow(3, 1, 5), true);
  check_like_batch_norm(
      random_tensor({4, 6, 5, 8}, f32, MemoryFormat::channels_last).narrow(1, 1, 3), true);
  check_like_batch_norm(random_tensor({4, 6, 5}, f32).permute({2, 1, 0}), true);
}

TEST_CASE("batch norm over ranks of large channels gives what batch norm gives", "[ops]") {
  manual_seed(2);
  for (const DType dtype : {f32, f16, bf16}) {
    INFO(name(dtype));
    check_like_batch_norm(random_tensor({4100, 256}, dtype), true);
    check_like_batch_norm(random_tensor({4, 64, 64, 65}, dtype, MemoryFormat::channels_last), true);
    check_like_batch_norm(random_tensor({2, 2, 260, 256}, dtype), true);
  }
}

TEST_CASE("an empty part has no moments and no sums", "[ops]") {
  const NoGrad no_grad;
  for (const DType dtype : {f32, f64, f16})
    for (const Shape& shape : {Shape{0, 3}, Shape{0, 3, 2, 2}, Shape{2, 3, 0, 4}}) {
      INFO(str(shape) << " " << name(dtype));
      const Tensor x = random_tensor(shape, dtype);
      CHECK(moments(x) == std::vector<double>(7, 0.0));
      const Tensor statistic = random_tensor({3}, compute_dtype(dtype));
      for (const Tensor& result :
           run_registered("channel_gradient_sums", {x, x, statistic, statistic}, 3))
        CHECK(relative_distance(result, zeros(result.shape())) == 0);
    }
}

TEST_CASE("moments of a part: means, squared deviations and count", "[ops]") {
  const NoGrad no_grad;
  const Tensor x = tensor({1., 10, 3, 20, 8, 60}, {3, 2}).to(test_device());
  CHECK(moments(x) == std::vector<double>{4, 30, 26, 1400, 3});
}
