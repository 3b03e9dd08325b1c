// Products of a single row or column, which have kernels of their own.
#include <mezzo.h>

#include <cmath>

#include "../support/catch.h"
#include "../support/exact_products.h"
#include "samples.h"

using namespace mezzo;
using cases::same_bits;

namespace {

/** Restores the number of threads. */
struct Threads {
  explicit Threads(int count) : before(num_threads()) { set_num_threads(count); }
  ~Threads() { set_num_threads(before); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  const int before;
};

bool holds(const Tensor& x) { return all(x).item<bool>(); }

/** Returns x with the same values and other strides. */
Tensor in_columns(const Tensor& x) { return x.t().contiguous().t(); }
Tensor with_gaps(const Tensor& x) {
  const Tensor wide = zeros({x.size(0), 2 * x.size(1)}, {.dtype = x.dtype()});
  const Tensor every_second = wide.slice(1, 0, 2 * x.size(1), 2);
  every_second.copy_(x);
  return every_second;
}

double unit_of(DType dtype) {
  return dtype == bf16 ? 0x1p-8 : dtype == f16 ? 0x1p-11 : dtype == f32 ? 0x1p-24 : 0x1p-53;
}

void check_product(const Tensor& a, const Tensor& b) {
  const Tensor expected = matmul(a.to(f64), b.to(f64)),
               scale = matmul(abs(a.to(f64)), abs(b.to(f64)));
  const Tensor got = matmul(a, b);
  const double sums = a.dtype() == f64 ? 1e-14 : 1e-5, unit = unit_of(a.dtype());
  CHECK(holds(abs(got.to(f64) - expected) <= abs(expected) * unit + scale * sums));
  for (const Tensor& other : {in_columns(b), with_gaps(b), with_gaps(b.t()).t()}) {
    CHECK(same_bits(matmul(a, other), got));
    CHECK(same_bits(matmul(with_gaps(a), other), got));
  }
  // A column is computed as a row.
  CHECK(same_bits(matmul(b.t(), a.t()).t().contiguous(), got));
  const Threads two(2);
  CHECK(same_bits(matmul(a, b), got));
}

}  // namespace

TEST_CASE("products of one row agree with f64, in the same bits for any strides and threads",
          "[row_products]") {
  manual_seed(1);
  const Threads one(1);
  for (const DType dtype : {f64, f32, bf16, f16})
    for (const bool exact : {false, true}) {
      const ExactProducts scope(exact);
      for (const auto& [n, k] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                 {7, 15},
                                 {8, 16},
                                 {9, 33},
                                 {129, 40},
                                 {130, 515},
                                 {1000, 31},
                                 {3, 5000},
                                 {1, 9001},
                                 {600, 4097}}) {
        INFO(name(dtype) << (exact ? ", exact, " : ", ") << k << " terms, " << n << " columns");
        check_product(randn({1, k}).to(dtype), randn({k, n}).to(dtype));
      }
    }
}

TEST_CASE("products of one row take addends and write any strides", "[row_products]") {
  manual_seed(2);
  for (const DType dtype : {f32, bf16}) {
    const Tensor a = randn({1, 70}).to(dtype), b = randn({70, 90}).to(dtype),
                 c = randn({1, 90}).to(dtype);
    const Tensor expected = (2.0 * matmul(a.to(f64), b.to(f64)) + 3.0 * c.to(f64)).to(dtype);
    const Tensor got = addmm(c, a, b, {.beta = 3, .alpha = 2});
    CHECK(holds(abs(got.to(f64) - expected.to(f64)) <=
                abs(expected.to(f64)) * 2 * unit_of(dtype) + 1e-3));
    const Tensor column = addmm(c.t(), b.t(), a.t(), {.beta = 3, .alpha = 2});
    CHECK(same_bits(column.t().contiguous(), got));
  }
}

TEST_CASE("nan and infinity in one term reach exactly their columns", "[row_products]") {
  for (const DType dtype : {f32, bf16, f16}) {
    const Tensor a = ones({1, 40}, {.dtype = dtype}), b = ones({40, 20}, {.dtype = dtype});
    b.index_put_({39, 5}, NAN);
    b.index_put_({0, 19}, INFINITY);
    for (const Tensor& operand : {b, in_columns(b)}) {
      const std::vector<double> y = matmul(a, operand).to(f64).to_vector<double>();
      for (std::size_t j = 0; j < y.size(); ++j)
        CHECK((j == 5 ? std::isnan(y[j]) : y[j] == (j == 19 ? INFINITY : 40.0)));
    }
  }
}
