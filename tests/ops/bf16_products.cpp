// Products of bf16 operands on the CPU, by its own instructions for them where it has any, against
// f64 and against f32 arithmetic.
#include <mezzo.h>

#include <cmath>
#include <functional>
#include <iostream>

#include "../support/catch.h"
#include "../support/exact_products.h"
#include "../support/values.h"
#include "samples.h"

using namespace mezzo;
using cases::same_bits;
using testing::kInf;
using testing::kNan;

namespace {

using Vector = std::vector<double>;

Tensor low(const Vector& values, const Shape& shape) {
  return tensor(values, shape, {.dtype = bf16});
}

Vector drawn_vector(std::int64_t n) { return randn({n}).to(bf16).to(f64).to_vector<double>(); }

/** Returns the sums of a[i] b[i]: row i of a matrix product with one column. */
double bf16_product(const Vector& a, const Vector& b, bool exact) {
  const ExactProducts scope(exact);
  const auto n = static_cast<std::int64_t>(a.size());
  // 17 rows and 33 columns fill several register blocks; the element looked at is in the last.
  const Tensor x = low(a, {1, n}).expand({17, n}), y = low(b, {1, n}).expand({33, n});
  const Tensor z = linear(x, y);
  REQUIRE(same_bits(z.select(0, 16), z.select(0, 0)));
  return z.select(0, 16).select(0, 32).item<double>();
}

/** Sums whose exact value is 0, so that the result is the error of the summation. */
struct ZeroSum {
  Vector a, b;

  ZeroSum(Vector factors, Vector others) : a(std::move(factors)), b(std::move(others)) {
    // Every product occurs again, negated, in another place.
    const std::size_t half = a.size();
    for (std::size_t i = 0; i < half; ++i) {
      a.push_back(-a[(i * 641 + 17) % half]);
      b.push_back(b[(i * 641 + 17) % half]);
    }
  }
};

Vector graded(std::int64_t n, double ratio) {
  Vector x = drawn_vector(n);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = low({x[i] * std::pow(ratio, static_cast<double>(i) / static_cast<double>(n))}, {1})
               .item<double>();
  return x;
}

bool holds_everywhere(const Tensor& x) { return all(x).item<bool>(); }

bool same_kind(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::isinf(a) ? a == b : std::isfinite(b);
}

}  // namespace

TEST_CASE("sums of 4096 bf16 products have at most twice the error of f32 sums",
          "[bf16_products]") {
  manual_seed(1);
  double error = 0, error_in_f32 = 0;
  for (int round = 0; round < 40; ++round)
    for (const double ratio : {1.0, 1e6, 1e-6}) {
      const ZeroSum sum(graded(2048, ratio),
                        round % 2 == 0 ? drawn_vector(2048) : graded(2048, ratio));
      double magnitude = 0;
      for (std::size_t i = 0; i < sum.a.size(); ++i) magnitude += std::abs(sum.a[i] * sum.b[i]);
      error = std::max(error, std::abs(bf16_product(sum.a, sum.b, false)) / magnitude);
      error_in_f32 = std::max(error_in_f32, std::abs(bf16_product(sum.a, sum.b, true)) / magnitude);
    }
  CAPTURE(error, error_in_f32);
  CHECK(error > 0);
  CHECK(error <= 2 * error_in_f32);
}

TEST_CASE("exact bf16 products are f32 products, rounded once", "[bf16_products]") {
  manual_seed(2);
  const ExactProducts scope(true);
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{5, 7, 33}, {64, 96, 300}, {3, 40, 5000}}) {
    const Tensor a = randn({m, k}).to(bf16), b = randn({k, n}).to(bf16);
    CHECK(same_bits(matmul(a, b), matmul(a.to(f32), b.to(f32)).to(bf16)));
  }
  const Tensor x = randn({3, 5, 9, 8}).to(bf16), w = randn({4, 5, 3, 3}).to(bf16);
  CHECK(same_bits(conv2d(x, w), conv2d(x.to(f32), w.to(f32)).to(bf16)));
}

TEST_CASE("bf16 products of any shape and stride agree with f64", "[bf16_products]") {
  manual_seed(3);
  const auto check = [](const Tensor& a, const Tensor& b) {
    const Tensor expected = matmul(a.to(f64), b.to(f64));
    const Tensor scale = matmul(abs(a.to(f64)), abs(b.to(f64)));
    const Tensor error = abs(matmul(a, b).to(f64) - expected);
    INFO(a.size(0) << " x " << a.size(1) << " x " << b.size(1));
    // A rounding of the sum to bf16, and f32 arithmetic.
    CHECK(holds_everywhere(error <= abs(expected) * 0x1p-8 + scale * 1e-5));
  };
  for (const std::int64_t m : {1, 3, 14, 15, 29, 70})
    for (const std::int64_t n : {1, 2, 16, 31, 33, 100})
      for (const std::int64_t k : {1, 2, 3, 15, 16, 32, 33, 1025}) {
        const Tensor a = randn({m, k}).to(bf16), b = randn({k, n}).to(bf16);
        check(a, b);
        check(a.t().contiguous().t(), b.t().contiguous().t());
        const Tensor wide = randn({m, 2 * k + 3}).to(bf16),
                     high = randn({2 * k + 1, 3 * n}).to(bf16);
        check(wide.slice(1, 1, 2 * k + 1, 2), high.slice(0, 0, 2 * k, 2).slice(1, 0, 3 * n, 3));
        check(wide.slice(1, 1, k + 1), high.slice(0, 1, k + 1).slice(1, n, 2 * n));
      }
}

TEST_CASE("bf16 convolutions agree with f32 arithmetic", "[bf16_products]") {
  manual_seed(4);
  struct Sizes {
    std::int64_t batch, groups, in, out, kernel, stride;
  };
  for (const Sizes& s : {Sizes{1, 1, 1, 1, 1, 1},
                         {5, 1, 3, 7, 3, 1},
                         {33, 1, 16, 40, 3, 2},
                         {2, 3, 3, 5, 3, 1},
                         {7, 8, 1, 1, 3, 1},
                         {4, 2, 70, 33, 1, 1},
                         {3, 1, 129, 17, 2, 1}}) {
    const auto run = [&](bool exact, const std::function<Tensor(const Tensor&, const Tensor&)>& f,
                         const Tensor& x, const Tensor& w) {
      const ExactProducts scope(exact);
      const Tensor a = x.detach().requires_grad_(), b = w.detach().requires_grad_();
      const Tensor y = f(a, b);
      manual_seed(5);
      const std::vector<Tensor> gradients = grad({y}, {a, b}, {}, {randn(y.shape()).to(bf16)});
      return std::vector<Tensor>{y.detach(), gradients[0], gradients[1]};
    };
    const auto compare = [&](const auto& f, const Tensor& x, const Tensor& w) {
      const auto by_cpu = run(false, f, x, w), in_f32 = run(true, f, x, w);
      for (std::size_t i = 0; i < by_cpu.size(); ++i) {
        const double size = amax(abs(in_f32[i].to(f64))).template item<double>();
        const Tensor error = abs(by_cpu[i].to(f64) - in_f32[i].to(f64));
        INFO("result " << i << " of groups " << s.groups << ", " << s.in << " to " << s.out);
        // Both are rounded to bf16, and may fall to either side of a half.
        CHECK(holds_everywhere(error <= abs(in_f32[i].to(f64)) * 0x1p-7 + size * 1e-4));
      }
    };
    const Tensor x = randn({s.batch, s.groups * s.in, 9, 6}).to(bf16);
    compare(
        [&](const Tensor& a, const Tensor& w) {
          return conv2d(a, w, {}, {.stride = s.stride, .padding = 1, .groups = s.groups});
        },
        x, randn({s.groups * s.out, s.in, s.kernel, s.kernel}).to(bf16));
    compare(
        [&](const Tensor& a, const Tensor& w) {
          return conv_transpose2d(a, w, {}, {.stride = s.stride, .groups = s.groups});
        },
        x, randn({s.groups * s.in, s.out, s.kernel, s.kernel}).to(bf16));
  }
}

TEST_CASE("bf16 products of nan and inf are those of f32 arithmetic", "[bf16_products]") {
  // Not where products of both signs overflow: the order of a pair decides which infinity results.
  const double big = 0x1p100;
  for (const auto& [a, b] : std::vector<std::pair<Vector, Vector>>{{{kInf, 0, 1}, {0, 1, 1}},
                                                                   {{kInf, 1, -kInf}, {1, 1, 1}},
                                                                   {{kInf, 1, 1}, {2, -kInf, 1}},
                                                                   {{-kInf, 1, 1}, {2, 3, 1}},
                                                                   {{1, kNan, 1}, {1, 0, 1}},
                                                                   {{big, 1, 1}, {-big, 1, 1}},
                                                                   {{big, 1, 1}, {big, 1, 1}},
                                                                   {{0, 1, 1}, {kNan, 1, 1}},
                                                                   {{1, 1, kNan}, {1, 1, 1}}})
    for (std::size_t shift = 0; shift < a.size(); ++shift) {
      Vector x(37, 0.5), y(37, 2);
      for (std::size_t i = 0; i < a.size(); ++i) {
        x[10 + (i + shift) % a.size()] = a[i];
        y[10 + (i + shift) % a.size()] = b[i];
      }
      const double got = bf16_product(x, y, false), expected = bf16_product(x, y, true);
      CAPTURE(got, expected, shift);
      CHECK(same_kind(expected, got));
    }
}

TEST_CASE("a nan outside the operands does not enter a bf16 product", "[bf16_products]") {
  // Odd depths leave half of a pair unused.
  const Tensor around = full({40, 41}, kNan, {.dtype = bf16});
  around.slice(0, 3, 20).slice(1, 4, 11).fill_(2);
  const Tensor a = around.slice(0, 3, 20).slice(1, 4, 11);
  CHECK(holds_everywhere(matmul(a, a.t()) == 28));
  CHECK(holds_everywhere(matmul(a.t(), a) == 68));
  const Tensor images = full({5, 5, 6, 6}, kNan, {.dtype = bf16});
  images.slice(0, 1, 4).slice(1, 1, 4).fill_(1);
  const Tensor x = images.slice(0, 1, 4).slice(1, 1, 4);
  CHECK(holds_everywhere(conv2d(x, ones({2, 3, 3, 3}, {.dtype = bf16})) == 27));
}

TEST_CASE("magnitudes below 2^-126 count as zero where the CPU multiplies bf16",
          "[bf16_products]") {
  const double tiny = std::ldexp(1.0, -130), normal = std::ldexp(1.0, -126);
  const double expected = cpu_multiplies_bf16() ? 0 : tiny;
  // So many terms that tiles pay.
  const auto of = [](double a, double b, bool exact) {
    Vector x(40, 0), y(40, 0);
    x[3] = a, y[3] = b;
    return bf16_product(x, y, exact);
  };
  CHECK(of(tiny, 1, false) == expected);
  CHECK(of(std::ldexp(1.0, -70), std::ldexp(1.0, -60), false) == expected);
  CHECK(of(tiny, 1, true) == tiny);
  CHECK(of(normal, 1, false) == normal);
  CHECK(of(std::ldexp(1.0, -63), std::ldexp(1.0, -63), false) == normal);
}

TEST_CASE("bf16 products have the same bits in every run and with any number of threads",
          "[bf16_products]") {
  manual_seed(6);
  const Tensor a = randn({130, 3000}).to(bf16), b = randn({3000, 70}).to(bf16),
               x = randn({9, 6, 12, 12}).to(bf16), w = randn({20, 6, 3, 3}).to(bf16),
               q = randn({2, 3, 90, 8}).to(bf16);
  const auto results = [&] {
    const Tensor images = x.detach().requires_grad_(), weights = w.detach().requires_grad_(),
                 queries = q.detach().requires_grad_();
    const Tensor y = conv2d(images, weights), z = scaled_dot_product_attention(queries, q, q);
    std::vector<Tensor> all = grad({sum(y), sum(z)}, {images, weights, queries});
    all.push_back(matmul(a, b));
    return all;
  };
  const int threads = num_threads();
  set_num_threads(1);
  const auto expected = results();
  for (const int count : {1, 2, 3}) {
    set_num_threads(count);
    const auto got = results();
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(same_bits(got[i], expected[i]));
  }
  set_num_threads(threads);
}

namespace {

/** Prints the checksum of a tensor's bits: FNV-1a (Fowler, Noll, Vo). */
void print_bits(const char* what, const Tensor& x) {
  const Tensor flat = x.detach().contiguous();
  const auto* bytes = static_cast<const unsigned char*>(flat.raw_data());
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (std::size_t i = 0; i < static_cast<std::size_t>(flat.numel()) * item_size(flat.dtype()); ++i)
    sum = (sum ^ bytes[i]) * 0x100000001b3u;
  std::cout << "bits of " << what << " in " << name(x.dtype()) << ": " << std::hex << sum
            << std::dec << '\n';
}

void print_gradients(const char* what, const Tensor& y, const std::vector<Tensor>& x) {
  print_bits(what, y);
  for (const Tensor& gradient : grad({sum(y * y)}, x)) print_bits(what, gradient);
}

}  // namespace

// Run by tests/checks/isa_ops.py once for each instruction set, which compares the lines.
TEST_CASE("the bits of exact products, for comparison", "[.product_bits]") {
  const ExactProducts scope(true);
  for (const DType dtype : {bf16, f16}) {
    manual_seed(7);
    const auto leaf = [&](const Shape& shape) {
      return (randn(shape) * 0.3).to(dtype).requires_grad_();
    };
    for (const auto& [m, n, k] :
         {std::array<std::int64_t, 3>{5, 7, 33}, {64, 96, 300}, {3, 40, 5000}, {300, 20, 9000}}) {
      const Tensor a = leaf({m, k}), b = leaf({k, n}), bias = leaf({n});
      print_gradients("matmul", matmul(a, b), {a, b});
      print_gradients("addmm", addmm(bias, a, b), {a, b, bias});
    }
    const Tensor x = leaf({5, 64, 9, 7}), w = leaf({96, 64, 3, 3}), v = leaf({64, 33, 3, 3}),
                 wide = leaf({40, 300, 2, 2}), large = leaf({400, 300, 3, 3});
    print_gradients("conv2d", conv2d(x, w, {}, {.padding = 1}), {x, w});
    print_gradients("conv2d", conv2d(wide, large, {}, {.padding = 1}), {wide, large});
    print_gradients("conv_transpose2d", conv_transpose2d(x, v, {}, {.stride = 2}), {x, v});
    const Tensor q = leaf({2, 3, 300, 20}), key = leaf({2, 3, 270, 20}),
                 value = leaf({2, 3, 270, 9});
    print_gradients("attention", scaled_dot_product_attention(q, key, value), {q, key, value});
    nn::LSTM lstm{20, 70};
    lstm.to(dtype);
    print_gradients("lstm", lstm(q.reshape({6, 300, 20})).output, lstm.parameters());
  }
}
