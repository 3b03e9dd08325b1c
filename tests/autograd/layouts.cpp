// Copies from any layout, and ops along any dimension: every kernel path against plain loops.
#include <cmath>

#include <mezzo.h>

#include "../../tensor/device/parallel.h"
#include "../support/same_bits.h"

using namespace mezzo;
using testing::same_bits;

namespace {

/** Returns small integers, exact in every dtype. */
Tensor numbered(const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < checked_numel(shape, "layouts"); ++i)
    values.push_back(static_cast<double>(i * 7919 % 251));
  return tensor(values, shape, {.dtype = dtype});
}

/** Computes x.permute(order) in row-major order by index arithmetic. */
std::vector<double> permuted(const Tensor& x, const std::vector<std::int64_t>& order) {
  const std::vector<double> values = x.to_vector<double>();
  const Strides strides = contiguous_strides(x.shape());
  std::vector<double> out;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    std::int64_t rest = i, at = 0;
    for (std::size_t d = order.size(); d-- > 0;) {
      const std::int64_t size = x.shape()[order[d]];
      at += rest % size * strides[order[d]];
      rest /= size;
    }
    out.push_back(values[static_cast<std::size_t>(at)]);
  }
  return out;
}

}  // namespace

TEST_CASE("permuted tensors are copied correctly in every dtype", "[layout]") {
  struct Way {
    Shape shape;
    std::vector<std::int64_t> order;
  };
  const std::vector<Way> ways{{{3, 5}, {1, 0}},
                              {{64, 70}, {1, 0}},
                              {{129, 33}, {1, 0}},
                              {{2, 3, 20, 17}, {0, 2, 3, 1}},
                              {{2, 20, 17, 19}, {0, 3, 1, 2}},
                              {{4, 9, 3, 16}, {0, 2, 1, 3}},
                              {{5, 70, 49}, {0, 2, 1}},
                              {{3, 4, 5, 6}, {3, 1, 2, 0}},
                              {{7, 1, 40}, {2, 1, 0}},
                              {{20, 2, 20}, {2, 1, 0}}};
  for (const DType dtype : {f64, f32, f16, bf16, i64, u8})
    for (const Way& way : ways) {
      INFO(name(dtype) << " " << str(way.shape));
      const Tensor x = numbered(way.shape, dtype);
      CHECK(x.permute(way.order).contiguous().to_vector<double>() == permuted(x, way.order));
      const Tensor steps = x.slice(0, 1, way.shape[0]).slice(-1, 0, way.shape.back(), 2);
      CHECK(steps.contiguous().to_vector<double>() == steps.to_vector<double>());
      CHECK(steps.permute(way.order).contiguous().to_vector<double>() ==
            permuted(steps.contiguous(), way.order));
    }
  const Tensor row = numbered({40}, f32).expand({30, 40});
  CHECK(row.t().contiguous().to_vector<double>() == permuted(row.contiguous(), {1, 0}));
}

TEST_CASE("softmax and cumulative sums are the same along every dimension", "[layout]") {
  for (const Shape& shape :
       {Shape{70, 300}, Shape{300, 70}, Shape{5, 49}, Shape{200, 3}, Shape{2, 130}})
    for (const DType dtype : {f32, f16, f64}) {
      INFO(name(dtype) << " " << str(shape));
      std::vector<double> values;
      for (std::int64_t i = 0; i < checked_numel(shape, "layouts"); ++i)
        values.push_back(3 * std::sin(static_cast<double>(i) * 1.7));
      const Tensor x = tensor(values, shape, {.dtype = dtype}), t = x.t().contiguous();
      const double tolerance = dtype == f16 ? 2e-3 : 2e-5;
      const auto close = [&](const Tensor& a, const Tensor& b) {
        return amax(abs(a.to(f64) - b.to(f64))).item<double>() <
               tolerance * std::max(1.0, amax(abs(b.to(f64))).item<double>());
      };
      CHECK(close(softmax(x, 1), softmax(t, 0).t()));
      CHECK(close(log_softmax(x, 1), log_softmax(t, 0).t()));
      CHECK(close(cumsum(x, 1), cumsum(t, 0).t()));
      CHECK(close(sum(softmax(x, 0), 0), ones({shape[1]}, {.dtype = dtype})));
      CHECK(close(amax(x, 1), amax(t, 0)));
      CHECK(close(logsumexp(x, 1), logsumexp(t, 0)));
      const Tensor u = x.detach().requires_grad_(), v = t.detach().requires_grad_();
      sum(softmax(u, 1) * x).backward();
      sum(softmax(v, 0) * t).backward();
      CHECK(close(u.grad(), v.grad().t()));
      // f16 inputs take the same code path as f32 ones.
      if (dtype != f16) continue;
      for (const int dim : {0, 1}) {
        CHECK(same_bits(softmax(x, dim), softmax(x.to(f32), dim).to(f16)));
        CHECK(same_bits(log_softmax(x, dim), log_softmax(x.to(f32), dim).to(f16)));
        CHECK(same_bits(cumsum(x, dim), cumsum(x.to(f32), dim).to(f16)));
        CHECK(same_bits(sum(x, dim), sum(x.to(f32), dim).to(f16)));
      }
    }
}

TEST_CASE("a row's result does not depend on its position", "[layout]") {
  std::vector<double> values;
  for (std::int64_t i = 0; i < 67 * 49; ++i) values.push_back(std::sin(static_cast<double>(i)) * 5);
  const Tensor x = tensor(values, {67, 49});
  for (const std::int64_t r : {0, 15, 16, 63, 64, 66}) {
    const Tensor row = x.narrow(0, r, 1);
    CHECK(same_bits(softmax(x, 1).narrow(0, r, 1), softmax(row, 1)));
    CHECK(same_bits(sum(x, 1).narrow(0, r, 1), sum(row, 1)));
    CHECK(same_bits(var(x, 1).narrow(0, r, 1), var(row, 1)));
    CHECK(same_bits(argmax(x, {.dim = 1}).narrow(0, r, 1), argmax(row, {.dim = 1})));
    CHECK(same_bits(gelu(x).narrow(0, r, 1), gelu(row)));
    CHECK(same_bits(sin(x * 1e9).narrow(0, r, 1), sin(row * 1e9)));
  }
  // One huge argument sends its block through the full-range form; the other elements keep their
  // bits.
  Tensor mixed = x.clone();
  mixed.select(0, 3).select(0, 7).fill_(1e20);
  CHECK(same_bits(sin(mixed).narrow(0, 5, 60), sin(x).narrow(0, 5, 60)));
  CHECK(same_bits(fmod(mixed, operand(0.3)).narrow(0, 5, 60),
                  fmod(x, operand(0.3)).narrow(0, 5, 60)));
}
