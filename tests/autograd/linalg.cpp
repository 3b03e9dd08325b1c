// Matrix products against plain loops: exact on small integers in every dtype, for any shape,
// strides and number of threads.
#include <mezzo.h>

#include <cmath>
#include <vector>

#include "../../tensor/device/parallel.h"
#include "../support/same_bits.h"
#include "../support/throws.h"

using namespace mezzo;
using testing::same_bits;

namespace {

const std::vector<DType> kFloats = {f16, bf16, f32, f64};

/** Returns small integers: every product and partial sum is exact in f32, and results up to 256
 *  are exact in every dtype. */
Tensor matrix_integers(const Shape& shape, DType dtype, int seed, int limit = 2) {
  const Tensor x = empty(shape, {.dtype = f64});
  std::uint32_t state = static_cast<std::uint32_t>(seed) * 2654435761u + 1;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    state = state * 1664525u + 1013904223u;
    x.data<double>()[i] =
        static_cast<int>((state >> 16) % static_cast<unsigned>(2 * limit + 1)) - limit;
  }
  return x.to(dtype);
}

std::vector<double> product(const Tensor& a, const Tensor& b) {
  const std::int64_t m = a.size(0), k = a.size(1), n = b.size(1);
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  std::vector<double> c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t p = 0; p < k; ++p)
      for (std::int64_t j = 0; j < n; ++j)
        c[static_cast<std::size_t>(i * n + j)] +=
            x[static_cast<std::size_t>(i * k + p)] * y[static_cast<std::size_t>(p * n + j)];
  return c;
}

/** Returns the same elements with other strides: transposed memory or a window of a larger
 *  tensor. */
Tensor to_format(const Tensor& x, int layout) {
  if (layout == 1) return x.t().contiguous().t();
  if (layout == 2) {
    const Tensor wide = full({x.size(0) + 1, 2 * x.size(1) + 1}, 99, {.dtype = x.dtype()});
    const Tensor window = wide.slice(0, 1, x.size(0) + 1).slice(1, 1, 2 * x.size(1) + 1, 2);
    window.copy_(x);
    return window;
  }
  return x;
}

Tensor noise(const Shape& shape, DType dtype, int seed) {
  return matrix_integers(shape, f64, seed, 500).to(dtype) / 512;
}

struct ThreadCount {
  explicit ThreadCount(int n) : before(num_threads()) { set_num_threads(n); }
  ~ThreadCount() { set_num_threads(before); }
  int before;
};

}  // namespace

TEST_CASE("products of small integers are exact in every dtype") {
  const std::vector<std::vector<std::int64_t>> sizes = {
      {1, 1, 1},    {1, 7, 1},    {2, 3, 5},   {13, 17, 19}, {14, 32, 16},
      {15, 33, 31}, {29, 11, 97}, {64, 1, 64}, {1, 64, 65},  {127, 2, 33},
      {3, 31, 257}, {0, 4, 5},    {4, 0, 5},   {4, 5, 0},    {150, 40, 300}};
  for (const DType dtype : kFloats)
    for (const auto& s : sizes) {
      // bf16 holds integers up to 256; for larger k, factors of -1, 0, 1 keep results small.
      const int limit = s[1] > 16 ? 1 : 2;
      const Tensor a = matrix_integers({s[0], s[1]}, dtype, 1, limit),
                   b = matrix_integers({s[1], s[2]}, dtype, 2, limit);
      CAPTURE(name(dtype), s[0], s[1], s[2]);
      const std::vector<double> expected = product(a, b);
      for (int layout = 0; layout < 9; ++layout) {
        if (layout > 0 && a.numel() * b.numel() == 0) continue;
        const Tensor c = matmul(to_format(a, layout % 3), to_format(b, layout / 3));
        REQUIRE(c.dtype() == dtype);
        REQUIRE(c.to_vector<double>() == expected);
      }
    }
}

TEST_CASE("sums accumulate in f32 over the whole inner dimension and round once") {
  for (const std::int64_t k : {513, 1500, 5000, 70000}) {
    // 1 + k * 2^-12: every partial sum is exact in f32; additions in f16 would stall.
    Tensor a = full({3, k}, 0.015625, {.dtype = f16}), b = full({k, 2}, 0.015625, {.dtype = f16});
    const Tensor c = matmul(a, b);
    REQUIRE(c.to_vector<double>() ==
            full({3, 2}, static_cast<double>(k) / 4096, {.dtype = f16}).to_vector<double>());
  }
}

TEST_CASE("a product has the same bits for any number of threads") {
  for (const DType dtype : kFloats)
    for (const Shape& s :
         std::vector<Shape>{{128, 784, 1024}, {300, 515, 200}, {10, 9000, 25}, {1, 1024, 700}}) {
      const Tensor a = noise({s[0], s[1]}, dtype, 3), b = noise({s[1], s[2]}, dtype, 4);
      Tensor first;
      for (const int threads : {1, 2, 4, 8}) {
        const ThreadCount scope(threads);
        const Tensor c = matmul(a, b);
        if (!first.defined()) first = c;
        CAPTURE(name(dtype), s[0], s[1], s[2], threads);
        REQUIRE(same_bits(first, c));
      }
    }
}

TEST_CASE("large products agree with f64") {
  for (const Shape& s : std::vector<Shape>{{257, 1031, 131}, {64, 4500, 40}, {33, 130, 1100}}) {
    const Tensor a = noise({s[0], s[1]}, f32, 5), b = noise({s[1], s[2]}, f32, 6);
    const std::vector<double> expected = product(a, b), c = matmul(a, b).to_vector<double>(),
                              wide = matmul(a.to(f64), b.to(f64)).to_vector<double>();
    double worst = 0, worst_wide = 0;
    for (std::size_t i = 0; i < c.size(); ++i) {
      worst = std::max(worst, std::abs(c[i] - expected[i]));
      worst_wide = std::max(worst_wide, std::abs(wide[i] - expected[i]));
    }
    REQUIRE(worst < 1e-5 * std::sqrt(static_cast<double>(s[1])));
    REQUIRE(worst_wide < 1e-12);
  }
}

TEST_CASE("linear with its bias is exact on integers") {
  for (const DType dtype : kFloats)
    for (const Shape& lead : std::vector<Shape>{{}, {1}, {5}, {2, 3}, {0}, {2, 0, 3}}) {
      const Tensor w = matrix_integers({7, 6}, dtype, 1), b = matrix_integers({7}, dtype, 2);
      Shape shape = lead;
      shape.push_back(6);
      const Tensor x = matrix_integers(shape, dtype, 3);
      const Tensor y = linear(x, w, b);
      shape[shape.rank() - 1] = 7;
      REQUIRE(y.shape() == shape);
      const std::int64_t rows = y.numel() / 7;
      std::vector<double> expected = product(x.reshape({rows, 6}), w.t());
      const std::vector<double> bias = b.to_vector<double>();
      REQUIRE(linear(x, w).to_vector<double>() == expected);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % 7];
      REQUIRE(y.to_vector<double>() == expected);
    }
}

TEST_CASE("the bias is added before the rounding") {
  // 2048 + 1 + 1 rounds once to 2050; in f16, 2048 + 1 would first round to 2048.
  const Tensor x = tensor({2048, 1}, {1, 2}, {.dtype = f16}),
               w = tensor({1, 1}, {1, 2}, {.dtype = f16});
  REQUIRE(linear(x, w, tensor(1, {.dtype = f16})).to_vector<double>() == std::vector<double>{2050});
}

TEST_CASE("the gradient of a broadcast factor is rounded once over all batches") {
  // 4096 terms in each of 3 batches. The value is chosen so that rounding to f16 after each batch
  // would show.
  const Tensor w = ones({1, 1}, {.dtype = f16, .requires_grad = true});
  const Tensor x = full({3, 1000, 1}, 0.333251953125, {.dtype = f16});
  const Tensor y = matmul(x, w);
  y.backward(ones_like(y));
  REQUIRE(w.grad().dtype() == f16);
  REQUIRE(w.grad().to_vector<double>() ==
          tensor({3000 * 0.333251953125}, {.dtype = f16}).to_vector<double>());
}

TEST_CASE("an empty batch gives zero gradients") {
  const Tensor w = ones({4, 3}, {.requires_grad = true}), b = ones({4}, {.requires_grad = true});
  const Tensor y = linear(zeros({0, 3}), w, b);
  REQUIRE(y.shape() == Shape{0, 4});
  y.backward(zeros({0, 4}));
  REQUIRE(w.grad().to_vector<double>() == std::vector<double>(12, 0.0));
  REQUIRE(b.grad().to_vector<double>() == std::vector<double>(4, 0.0));
}

TEST_CASE("with beta 0 the added matrix is not read") {
  const Tensor c = full({2, 2}, NAN, {.requires_grad = true}), a = matrix_integers({2, 3}, f32, 1),
               b = matrix_integers({3, 2}, f32, 2);
  const Tensor y = addmm(c, a, b, {.beta = 0, .alpha = 2});
  REQUIRE(y.to_vector<double>() == (matmul(a, b) * 2).to_vector<double>());
  y.backward(ones_like(y));
  REQUIRE(c.grad().to_vector<double>() == std::vector<double>(4, 0.0));
}

TEST_CASE("in-place products may read the tensor they overwrite") {
  const Tensor a = matrix_integers({5, 5}, f32, 1), b = matrix_integers({5, 5}, f32, 2);
  const Tensor expected = addmm(a, a, a, {.beta = 3, .alpha = -1});
  const Tensor c = a.clone();
  addmm_(c, c, c, {.beta = 3, .alpha = -1});
  REQUIRE(c.to_vector<double>() == expected.to_vector<double>());
  const Tensor t = a.clone();
  addmm_(t.t(), t.t(), b);
  REQUIRE(t.t().to_vector<double>() == addmm(a.t(), a.t(), b).to_vector<double>());
}

TEST_CASE("products reject mismatched operands with both shapes in the error") {
  const Tensor a = zeros({2, 3}), b = zeros({4, 5});
  CHECK_THROWS_WITH_AS_TEXT(matmul(a, b), ShapeError,
                            "matmul: inner sizes differ; got f32[2,3]@cpu and f32[4,5]@cpu, "
                            "expected equal sizes, not 3 and 4");
  CHECK_THROWS_WITH_AS_TEXT(
      matmul(zeros({64, 256}, {.dtype = f16}), zeros({256, 10})), DtypeError,
      "matmul: dtypes differ; got f16[64,256]@cpu and f32[256,10]@cpu, expected one dtype; "
      "use x.to(f16), or amp::autocast around the call");
  CHECK_THROWS_WITH_AS_TEXT(
      mm(a, zeros({3, 3}, {.dtype = f64})), DtypeError,
      "mm: dtypes differ; got f32[2,3]@cpu and f64[3,3]@cpu, expected one dtype; "
      "f64 is never cast automatically: use x.to(f32)");
  CHECK_THROWS_WITH_AS_TEXT(linear(zeros({16, 127}), zeros({64, 128})), ShapeError,
                            "linear: input features do not fit the weight; got input "
                            "f32[16,127]@cpu and weight f32[64,128]@cpu, "
                            "expected 128 features; build Linear{127, 64} or pass 128");
  REQUIRE_THROWS_AS(matmul(tensor(1.0), a), ShapeError);
  REQUIRE_THROWS_AS(mm(zeros({3}), a), ShapeError);
  REQUIRE_THROWS_AS(bmm(zeros({2, 3, 4}), zeros({3, 4, 5})), ShapeError);
  REQUIRE_THROWS_AS(matmul(zeros({2, 3, 4}), zeros({3, 4, 5})), ShapeError);
  REQUIRE_THROWS_AS(matmul(zeros({2, 2}, {.dtype = boolean}), zeros({2, 2}, {.dtype = boolean})),
                    DtypeError);
  REQUIRE_THROWS_AS(linear(tensor(1.0), a), ShapeError);
  REQUIRE_THROWS_AS(linear(zeros({2, 3}), a, zeros({3})), ShapeError);
  REQUIRE_THROWS_AS(addmm(zeros({3, 3}), zeros({2, 3}), zeros({3, 2})), ShapeError);
  REQUIRE_THROWS_AS(addmm_(zeros({1, 2}), zeros({2, 3}), zeros({3, 2})), ShapeError);
  REQUIRE_THROWS_AS(addbmm(zeros({2, 2}), zeros({3, 2, 3}), zeros({2, 3, 2})), ShapeError);
  REQUIRE_THROWS_AS(dot(zeros({3}), zeros({4})), ShapeError);
  REQUIRE_THROWS_AS(outer(zeros({3}), zeros({4, 1})), ShapeError);
}
