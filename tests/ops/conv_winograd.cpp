// Convolutions by Winograd's algorithm on the CPU (tensor/ops/conv/conv_winograd_cpu.h): errors,
// infinities and NaN, and the number of threads. The shapes are those that it is used for.
#include <mezzo.h>

#include <cmath>

#include "../../tensor/ops/conv/conv_winograd_cpu.h"
#include "../support/catch.h"
#include "../support/values.h"
#include "joined.h"

using namespace mezzo;
using cases::joined::same_bits;
using testing::kInf;
using testing::kNan;

namespace {

const std::vector<double> kBad{kInf, -kInf, kNan};

/** Operands of a convolution, a bias, and the gradient of its result, in f64. */
struct ConvOperands {
  Tensor x, weight, bias, seed;
  std::int64_t padding;

  ConvOperands(const Shape& images, std::int64_t channels, std::int64_t pad) : padding(pad) {
    const std::int64_t grown = 2 * pad - 2;
    const auto drawn = [](const Shape& shape) { return randn(shape).to(bf16).to(f64); };
    x = drawn(images);
    weight = drawn({channels, images[1], 3, 3});
    bias = drawn({channels});
    seed = drawn({images[0], channels, images[2] + grown, images[3] + grown});
  }

  /** Returns the absolute values. */
  ConvOperands positive() const {
    ConvOperands result = *this;
    for (Tensor* t : {&result.x, &result.weight, &result.bias, &result.seed}) *t = t->abs();
    return result;
  }

  /** Returns the result, and the gradients of images and weight, computed in `dtype`. */
  std::vector<Tensor> results(DType dtype) const {
    const auto given = [&](const Tensor& t) { return t.to(dtype).detach(); };
    const Tensor images = given(x).requires_grad_(), kernel = given(weight).requires_grad_();
    const Tensor y = conv2d(images, kernel, given(bias), ConvOptions{.padding = padding});
    y.backward(given(seed));
    return {y.detach(), images.grad(), kernel.grad()};
  }
};

/** Returns the largest error of the f32 results, relative to the sums of absolute values. */
double relative_error(const ConvOperands& operands) {
  const std::vector<Tensor> got = operands.results(f32), exact = operands.results(f64),
                            terms = operands.positive().results(f64);
  double error = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    error = std::max(error, ((got[i].to(f64) - exact[i]).abs() / terms[i]).max().item<double>());
  return error;
}

bool same_class(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::isinf(a) ? a == b : std::isfinite(b);
}

/** Returns the number of elements of which only one is finite, or that are different infinities. */
int differing_kinds(const Tensor& a, const Tensor& b) {
  const std::vector<double> left = a.to(f64).to_vector<double>(),
                            right = b.to(f64).to_vector<double>();
  int count = 0;
  for (std::size_t i = 0; i < left.size(); ++i) count += same_class(left[i], right[i]) ? 0 : 1;
  return count;
}

/** Checks the kinds of all results against those in f64. */
void check_kinds(const ConvOperands& operands) {
  for (const DType dtype : {f32, f16}) {
    const std::vector<Tensor> got = operands.results(dtype), expected = operands.results(f64);
    for (std::size_t i = 0; i < got.size(); ++i) {
      INFO(name(dtype) << ", result " << i);
      CHECK(differing_kinds(got[i], expected[i]) == 0);
    }
  }
}

/** Returns the tensor with one element replaced. */
Tensor with(const Tensor& x, std::int64_t place, double value) {
  std::vector<double> values = x.to_vector<double>();
  values[static_cast<std::size_t>(place)] = value;
  return tensor(values, x.shape(), {.dtype = f64});
}

}  // namespace

TEST_CASE("Winograd convolutions of 512 channels keep their bound of error", "[ops][winograd]") {
  manual_seed(1);
  for (const ConvOperands& operands :
       {ConvOperands({1, 512, 12, 12}, 512, 1), ConvOperands({33, 512, 4, 4}, 40, 1),
        ConvOperands({2, 40, 9, 15}, 512, 2), ConvOperands({64, 32, 8, 8}, 33, 0)}) {
    CHECK(relative_error(operands) < cpu_kernels::kWinogradError / 10);
    CHECK(relative_error(operands.positive()) < cpu_kernels::kWinogradError);
  }
}

TEST_CASE("Winograd convolutions of small integers are exact", "[ops][winograd]") {
  manual_seed(2);
  ConvOperands operands({3, 35, 11, 8}, 38, 1);
  for (Tensor* t : {&operands.x, &operands.weight, &operands.bias, &operands.seed})
    *t = (*t * 2).round();
  const std::vector<Tensor> got = operands.results(f32), exact = operands.results(f64);
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(same_bits({got[i].to(f64)}, {exact[i]}));
}

TEST_CASE("a non-finite element reaches the same results as in a direct convolution",
          "[ops][winograd]") {
  manual_seed(3);
  const ConvOperands operands({2, 33, 9, 14}, 37, 1);
  const auto place_in = [](const Tensor& x, std::int64_t i) {
    return x.numel() * (2 * i + 1) / 12;
  };
  for (std::int64_t i = 0; i < 6; ++i) {
    const double bad = kBad[static_cast<std::size_t>(i % 3)];
    ConvOperands changed = operands;
    changed.x = with(operands.x, place_in(operands.x, i), bad);
    check_kinds(changed);
    changed = operands;
    changed.weight = with(operands.weight, place_in(operands.weight, i), bad);
    check_kinds(changed);
    changed = operands;
    changed.seed = with(operands.seed, place_in(operands.seed, i), bad);
    check_kinds(changed);
  }
}

TEST_CASE("elements in corners, of both infinities and among zeros keep their kinds",
          "[ops][winograd]") {
  manual_seed(4);
  ConvOperands operands({2, 32, 8, 8}, 32, 2);
  operands.x = with(with(operands.x, 0, kInf), 9, -kInf);
  operands.x = with(operands.x, operands.x.numel() - 1, kNan);
  check_kinds(operands);
  operands.weight = zeros({32, 32, 3, 3}, {.dtype = f64});
  check_kinds(operands);
}

TEST_CASE("results that overflow only in a transform are finite", "[ops][winograd]") {
  manual_seed(5);
  ConvOperands operands({2, 32, 8, 8}, 32, 1);
  // The differences of neighbours of opposite signs are infinite; no result is.
  operands.x = with(with(operands.x, 9, 3e38), 11, -3e38);
  operands.weight = operands.weight * 1e-3;
  operands.seed = operands.seed * 1e-3;
  const std::vector<Tensor> got = operands.results(f32), exact = operands.results(f64);
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(differing_kinds(got[i], exact[i].to(f32)) == 0);
}

TEST_CASE("a non-finite element leaves the bits of the results that it does not reach",
          "[ops][winograd]") {
  manual_seed(6);
  ConvOperands operands({2, 40, 10, 10}, 36, 1);
  const std::vector<Tensor> before = operands.results(f32);
  operands.x = with(operands.x, 44, kNan);
  const std::vector<Tensor> after = operands.results(f32);
  const Tensor kept = isfinite(after[0]);
  CHECK((kept == false).sum().item<std::int64_t>() == 9 * 36);
  CHECK(same_bits({where(kept, after[0], 0.0)}, {where(kept, before[0], 0.0)}));
  CHECK(same_bits({after[1]}, {before[1]}));
}

TEST_CASE("Winograd convolutions have the same bits with any number of threads",
          "[ops][winograd]") {
  manual_seed(7);
  const int threads = num_threads();
  for (const ConvOperands& operands :
       {ConvOperands({40, 36, 11, 8}, 140, 1), ConvOperands({1, 130, 14, 14}, 200, 0)}) {
    set_num_threads(1);
    const std::vector<Tensor> expected = operands.results(f32);
    for (const int count : {2, 3, 7}) {
      set_num_threads(count);
      CHECK(same_bits(operands.results(f32), expected));
    }
  }
  set_num_threads(threads);
}
