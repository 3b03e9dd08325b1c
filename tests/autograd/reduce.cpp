// Reductions where the generated op tests do not reach: ties, nan, empty tensors, exactness,
// threads, invalid arguments.
#include <cmath>

#include <mezzo.h>

#include "../../tensor/device/parallel.h"
#include "../support/same_bits.h"
#include "support.h"

using namespace mezzo;
using testing::same_bits;

namespace {

/** Returns small integers without an obvious pattern: they and their sums are exact in every
 *  dtype. */
Tensor spread_integers(const Shape& shape, DType dtype, std::int64_t range = 7) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<double>(i * 7919 % 104729 % range - range / 2));
  return tensor(values, shape, {.dtype = dtype});
}

/** Returns values whose partial sums round at every step. */
Tensor fractions(const Shape& shape, DType dtype) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(std::sin(static_cast<double>(i)) * std::exp(static_cast<double>(i % 13) - 6));
  return tensor(values, shape, {.dtype = dtype});
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("sums of integers are exact along every dimension of every size", "[reduce]") {
  const std::vector<Shape> shapes{{1, 1, 1},    {3, 257, 2},  {2, 4097, 1}, {1, 9000, 3},
                                  {130, 3, 65}, {2, 70, 300}, {5, 64, 63},  {1, 200, 513}};
  for (const DType dtype : {u8, i32, i64, f16, bf16, f32, f64})
    for (const Shape& shape : shapes) {
      INFO(name(dtype) << " " << str(shape));
      // Sums stay below 256, so that bf16 holds each of them.
      Tensor x = spread_integers(shape, i64, 2);
      x = (x - amin(x)).to(dtype);
      const std::vector<double> values = x.to_vector<double>();
      for (int dim = 0; dim < 3; ++dim) {
        const Tensor y = sum(x, dim, {.dtype = is_low(dtype) ? std::optional(f32) : std::nullopt});
        std::vector<double> expected(static_cast<std::size_t>(y.numel()), 0.0);
        std::int64_t inner = 1;
        for (int d = dim + 1; d < 3; ++d) inner *= shape[d];
        for (std::int64_t i = 0; i < x.numel(); ++i)
          expected[static_cast<std::size_t>(i / (inner * shape[dim]) * inner + i % inner)] +=
              values[static_cast<std::size_t>(i)];
        CHECK(y.to_vector<double>() == expected);
      }
    }
}

TEST_CASE("results have the same bits for any number of threads", "[reduce]") {
  const int before = num_threads();
  const std::vector<Shape> shapes{{1, 100000}, {100000, 1}, {300, 700},
                                  {40000, 3},  {3, 40000},  {70, 4100}};
  for (const DType dtype : {f32, f16, f64})
    for (const Shape& shape : shapes) {
      const Tensor x = fractions(shape, dtype);
      const auto run = [&](int threads) {
        set_num_threads(threads);
        return std::vector<Tensor>{sum(x),           sum(x, 0),     sum(x, 1),
                                   mean(x, 0),       amax(x, 1),    argmax(x, {.dim = 0}),
                                   var(x, 0),        var(x, 1),     logsumexp(x, 0),
                                   logsumexp(x, {}), softmax(x, 1), log_softmax(x, 0),
                                   vector_norm(x),   cumsum(x, 1),  layer_norm(x, {x.size(1)})};
      };
      const std::vector<Tensor> one = run(1);
      for (const int threads : {2, 4, 8}) {
        const std::vector<Tensor> many = run(threads);
        for (std::size_t k = 0; k < one.size(); ++k) {
          INFO(name(dtype) << " " << str(shape) << " result " << k << " on " << threads
                           << " threads");
          CHECK(same_bits(one[k], many[k]));
        }
      }
    }
  set_num_threads(before);
}

TEST_CASE("long f32 sums stay accurate", "[reduce]") {
  const Tensor x = full({3, 1000003}, 0.1f);
  const double exact = static_cast<double>(0.1f) * 1000003;
  for (const double y : sum(x, 1).to_vector<double>()) CHECK(std::abs(y / exact - 1) < 1e-6);
  for (const double y : sum(x.t().contiguous(), 0).to_vector<double>())
    CHECK(std::abs(y / exact - 1) < 1e-6);
  CHECK(std::abs(mean(x.to(f16)).item<double>() /
                     static_cast<double>(static_cast<float>(Half(0.1f))) -
                 1) < 1e-3);
}

TEST_CASE("partial sums of 16-bit values do not overflow", "[reduce]") {
  const Tensor x = full({4096}, 60000, {.dtype = f16});
  CHECK(sum(x, {}, {.dtype = f32}).item<double>() == 4096.0 * 60000 - 4096.0 * 0);
  CHECK(mean(x).item<double>() == static_cast<double>(static_cast<float>(Half(60000.0f))));
  CHECK(std::isinf(sum(x).item<double>()));
}

TEST_CASE("extremes: the first of equal elements; nan is the largest", "[reduce]") {
  const Tensor x = tensor({1., 3, 3, 0, 0, 2}, {6});
  CHECK(argmax(x).item<std::int64_t>() == 1);
  CHECK(argmin(x).item<std::int64_t>() == 3);
  const Tensor with_nan = tensor({1, kNan, 5, kNan, kInf, -kInf}, {6});
  CHECK(std::isnan(amax(with_nan).item<double>()));
  CHECK(std::isnan(min(with_nan).item<double>()));
  CHECK(argmax(with_nan).item<std::int64_t>() == 1);
  CHECK(argmin(with_nan).item<std::int64_t>() == 1);
  const auto [values, indices] = max(tensor({-kInf, -kInf, 4, 4}, {2, 2}), 1);
  CHECK(values.to_vector<double>() == std::vector<double>{-kInf, 4});
  CHECK(indices.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 0});
  // Along the columns of a wide matrix, where the kernel searches many columns at once.
  Tensor wide = zeros({200, 300});
  wide.select(0, 150).fill_(2);
  wide.select(0, 70).fill_(2);
  wide.select(1, 5).select(0, 190).fill_(kNan);
  const std::vector<std::int64_t> rows = argmax(wide, {.dim = 0}).to_vector<std::int64_t>();
  for (std::size_t j = 0; j < 300; ++j) CHECK(rows[j] == (j == 5 ? 190 : 70));
}

TEST_CASE("gradients of extremes: shared at ties, to the chosen element, to nans", "[reduce]") {
  const Tensor x = tensor({2, 5, 5, 1, 7, 7, 7, 7}, {2, 4}, {.dtype = f64}).requires_grad_();
  amax(x, 1).backward(tensor({1, 2}, {2}, {.dtype = f64}));
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 0.5, 0.5, 0, 0.5, 0.5, 0.5, 0.5});
  x.set_grad({});
  max(x, 1).values.backward(tensor({1, 2}, {2}, {.dtype = f64}));
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 1, 0, 0, 2, 0, 0, 0});
  const Tensor n = tensor({1, kNan, kNan, 3}, {4}).requires_grad_();
  amin(n).backward();
  CHECK(n.grad().to_vector<double>() == std::vector<double>{0, 0.5, 0.5, 0});
}

TEST_CASE("reductions of empty tensors", "[reduce]") {
  const Tensor none = zeros({3, 0});
  CHECK(sum(none, 1).to_vector<double>() == std::vector<double>{0, 0, 0});
  CHECK(sum(none, 0).shape() == Shape{0});
  CHECK(prod(none).item<double>() == 1);
  CHECK(std::isnan(mean(none).item<double>()));
  CHECK(std::isnan(var(none).item<double>()));
  CHECK(std::isnan(var(zeros({1})).item<double>()));
  CHECK(logsumexp(none, 1).to_vector<double>() == std::vector<double>{-kInf, -kInf, -kInf});
  CHECK(all(none).item<bool>());
  CHECK_FALSE(any(none).item<bool>());
  CHECK(count_nonzero(none).item<std::int64_t>() == 0);
  CHECK(vector_norm(none).item<double>() == 0);
  CHECK_THROWS_AS(amax(none), ShapeError);
  CHECK_THROWS_AS(argmax(none, {.dim = 1}), ShapeError);
  CHECK_THROWS_AS(max(none, 1), ShapeError);
  CHECK_THROWS_AS(vector_norm(none, {}, {.p = kInf}), ShapeError);
  CHECK_THROWS_AS(vector_norm(none, {}, {.p = -1}), ShapeError);
  CHECK(argmax(none, {.dim = 0}).shape() == Shape{0});
  CHECK(softmax(none, 1).shape() == Shape{3, 0});
  const Tensor x = zeros({0, 4}).requires_grad_();
  sum(x * 2).backward();
  CHECK(x.grad().shape() == Shape{0, 4});
}

TEST_CASE("result dtypes of reductions", "[reduce]") {
  for (const DType dtype : {boolean, u8, i32, i64}) {
    const Tensor x = ones({3}, {.dtype = dtype});
    CHECK(sum(x).dtype() == i64);
    CHECK(prod(x).dtype() == i64);
    CHECK(cumsum(x, 0).dtype() == i64);
    CHECK(amax(x).dtype() == dtype);
    CHECK(all(x).dtype() == boolean);
    CHECK(sum(x, {}, {.dtype = f16}).dtype() == f16);
    CHECK(mean(x, {}, {.dtype = f32}).item<double>() == 1);
    CHECK_THROWS_AS(mean(x), DtypeError);
    CHECK_THROWS_AS(var(x), DtypeError);
    CHECK(logsumexp(x, 0).dtype() == f32);
    CHECK_THROWS_AS(softmax(x, 0), DtypeError);
    CHECK(softmax(x, 0, {.dtype = f64}).dtype() == f64);
  }
  for (const DType dtype : {f16, bf16, f32, f64})
    CHECK(sum(ones({3}, {.dtype = dtype})).dtype() == dtype);
}

TEST_CASE("bad dimensions are reported", "[reduce]") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_AS(sum(x, 2), IndexError);
  CHECK_THROWS_AS(sum(x, {0, -2}), IndexError);
  CHECK_THROWS_AS(argmax(x, {.dim = -3}), IndexError);
  CHECK_THROWS_AS(softmax(x, 5), IndexError);
  CHECK_THROWS_AS(cumsum(x, 2), IndexError);
  CHECK(message_of([&] { mean(zeros({2}, {.dtype = i64})); }) ==
        "mean: the mean of integers is not an integer; got i64[2]@cpu, expected a floating dtype; "
        "pass "
        "{.dtype = f32}");
  CHECK(message_of([&] { amax(zeros({2, 0}), 1); }) ==
        "amax: the extreme of no elements is undefined; got f32[2,0]@cpu, expected at least one "
        "element "
        "along the "
        "reduced dimensions");
}

TEST_CASE("norms at zero and at ties", "[reduce]") {
  const Tensor x = zeros({3}, {.dtype = f64}).requires_grad_();
  for (const double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0}) {
    x.set_grad({});
    vector_norm(x, {}, {.p = p}).backward();
    CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 0, 0});
  }
  const Tensor y = tensor({3, -3, 1}, {3}, {.dtype = f64}).requires_grad_();
  vector_norm(y, {}, {.p = kInf}).backward();
  CHECK(y.grad().to_vector<double>() == std::vector<double>{0.5, -0.5, 0});
  const Tensor constant = full({4}, 2, {.dtype = f64}).requires_grad_();
  mezzo::std(constant).backward();
  CHECK(constant.grad().to_vector<double>() == std::vector<double>{0, 0, 0, 0});
}

TEST_CASE("softmax at infinities", "[softmax]") {
  const auto first = [](const Tensor& x) { return x.to_vector<double>()[0]; };
  CHECK(std::isnan(first(softmax(full({3}, -kInf), 0))));
  CHECK(std::isnan(first(softmax(tensor({kInf, 0}, {2}), 0))));
  CHECK(softmax(tensor({0, -kInf, 0}, {3}), 0).to_vector<double>() ==
        std::vector<double>{0.5, 0, 0.5});
  CHECK(logsumexp(tensor({kInf, 0}, {2}), 0).item<double>() == kInf);
  CHECK(logsumexp(tensor({-kInf, -kInf}, {2}), 0).item<double>() == -kInf);
  CHECK(std::isnan(logsumexp(tensor({0, kNan}, {2}), 0).item<double>()));
  // Neither overflow nor loss of small log-probabilities.
  CHECK(softmax(tensor({1000., 1000}, {2}), 0).to_vector<double>() ==
        std::vector<double>{0.5, 0.5});
  CHECK(log_softmax(tensor({0., -200}, {2}), 0).to_vector<double>()[1] == -200);
}
