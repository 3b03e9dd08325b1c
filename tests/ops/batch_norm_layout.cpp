// Batch norms of channels-last images: results and gradients have the format of x and the values of
// row-major images.
#include <mezzo.h>

#include "../support/catch.h"
#include "../support/values.h"
#include "joined.h"

using namespace mezzo;
using namespace cases::joined;
using cases::difference, cases::to_array, cases::tolerance_of;
using testing::kLast;
using testing::kRows;

namespace {

/** One of the norms, on operands that may have different formats. */
struct Norm {
  bool with_relu, residual, training;

  BatchNormOptions options(const std::vector<Tensor>& x, const Tensor& mean,
                           const Tensor& var) const {
    return {.running_mean = mean,
            .running_var = var,
            .weight = x[1],
            .bias = x[2],
            .training = training,
            .eps = 1e-2};
  }
  Tensor operator()(const std::vector<Tensor>& x, const BatchNormOptions& o) const {
    if (!with_relu) return batch_norm(x[0], o);
    return residual ? batch_norm_relu(x[0], o, x[3]) : batch_norm_relu(x[0], o);
  }
};

std::vector<Norm> all_norms() {
  std::vector<Norm> norms;
  for (const bool training : {true, false}) {
    norms.push_back({false, false, training});
    norms.push_back({true, false, training});
    norms.push_back({true, true, training});
  }
  return norms;
}

std::string norm_label(const Norm& n, DType dtype, const Shape& shape) {
  return str(n.with_relu ? "batch_norm_relu" : "batch_norm", n.residual ? " with residual, " : ", ",
             n.training ? "training, " : "evaluation, ", name(dtype), " ", shape);
}

/** Returns x, weight, bias and residual. The residual is far from 0, so that rounding does not
 *  decide where relu is 0. */
std::vector<Tensor> norm_operands(const Norm& norm, DType dtype, const Shape& shape) {
  const NoGrad no_grad;
  const auto of = [&](const Shape& s, DType t, double scale) { return leaf(s, t, scale).detach(); };
  std::vector<Tensor> x{of(shape, dtype, 2), of({shape[1]}, f32, 1), of({shape[1]}, f32, 0.5)};
  if (norm.residual) x.push_back(where(gt(of(shape, dtype, 1), 0.0), 20.0, -20.0).to(dtype));
  return x;
}

Tensor seed_like(const Tensor& y) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < y.numel(); ++i)
    values.push_back(static_cast<double>(i % 7) * 0.25 - 0.5);
  return tensor(values, y.shape(), {.dtype = y.dtype(), .device = y.device()});
}

/** The formats of x, the residual and the incoming gradient. */
struct Formats {
  MemoryFormat x, residual, g;
};

/** Returns the result, updated statistics and the gradients of all operands. Checks the formats of
 *  images. */
std::vector<Tensor> norm_results(const Norm& norm, std::vector<Tensor> x, const Formats& formats) {
  x[0] = x[0].to(formats.x);
  if (norm.residual) x[3] = x[3].to(formats.residual);
  for (Tensor& t : x) t = t.detach().requires_grad_();
  const Tensor mean = (x[2].detach() + 0.25).to(f32),
               var = full({x[0].size(1)}, 1.75, {.device = x[0].device()});
  const Tensor y = norm(x, norm.options(x, mean, var));
  const Strides expected = strides_in(formats.x, y.shape());
  CHECK(y.strides() == expected);
  std::vector<Tensor> all{y.detach(), mean, var};
  for (const Tensor& g : grad(std::vector{y}, x, {}, std::vector{seed_like(y).to(formats.g)})) {
    if (g.dim() > 1) CHECK(g.strides() == expected);
    all.push_back(g);
  }
  return all;
}

void check_results_close(const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("result " << i);
    // Errors of sums over a channel grow with its size.
    const double scale =
        got[i].dim() == 1 ? static_cast<double>(got[0].numel() / got[0].size(1)) : 1;
    const cases::Tolerance t = tolerance_of(got[i].dtype());
    CHECK(difference(to_array(got[i]), to_array(expected[i]), {8 * t.rtol, 8 * t.atol * scale}) ==
          "");
  }
}

}  // namespace

TEST_CASE("batch norms keep images channels-last forward and backward, with row-major values",
          "[ops]") {
  manual_seed(31);
  for (const Norm& norm : all_norms())
    for (const DType dtype : {f32, f16})
      for (const Shape& shape : {Shape{3, 5, 4, 6}, Shape{2, 3, 3, 2, 4}, Shape{2, 33, 9, 8},
                                 Shape{9, 2, 30, 20}, Shape{3, 1, 4, 6}, Shape{6, 4, 1, 1}}) {
        INFO(norm_label(norm, dtype, shape));
        const std::vector<Tensor> x = norm_operands(norm, dtype, shape);
        check_results_close(norm_results(norm, x, {kLast, kLast, kLast}),
                            norm_results(norm, x, {kRows, kRows, kRows}));
      }
}

TEST_CASE(
    "batch norms of channels-last images agree with row-major ones where a channel exceeds a "
    "block's "
    "work",
    "[ops]") {
  manual_seed(32);
  const Shape shape{2, 20, 70, 64};
  for (const Norm& norm : {Norm{false, false, true}, Norm{true, true, true}})
    for (const DType dtype : {f32, f16}) {
      INFO(norm_label(norm, dtype, shape));
      const std::vector<Tensor> x = norm_operands(norm, dtype, shape);
      const std::vector<Tensor> got = norm_results(norm, x, {kLast, kLast, kLast});
      check_results_close(got, norm_results(norm, x, {kRows, kRows, kRows}));
      CHECK(same_bits(got, norm_results(norm, x, {kLast, kLast, kLast})));
    }
}

TEST_CASE("batch norm results have the format of x, for any formats of other operands", "[ops]") {
  manual_seed(33);
  for (const Norm& norm : all_norms())
    for (const Shape& shape : {Shape{3, 5, 4, 6}, Shape{2, 3, 3, 2, 4}})
      for (const MemoryFormat format : {kLast, kRows}) {
        INFO(norm_label(norm, f32, shape) << ", " << name(format));
        const std::vector<Tensor> x = norm_operands(norm, f32, shape);
        const std::vector<Tensor> expected = norm_results(norm, x, {format, format, format});
        for (const MemoryFormat residual : {kLast, kRows})
          for (const MemoryFormat g : {kLast, kRows})
            CHECK(same_bits(norm_results(norm, x, {format, residual, g}), expected));
      }
}

TEST_CASE("batch norms of channels-last images with gaps return dense results", "[ops]") {
  manual_seed(34);
  for (const Norm& norm : all_norms()) {
    INFO(norm_label(norm, f32, {3, 5, 4, 6}));
    std::vector<Tensor> x = norm_operands(norm, f32, {3, 5, 4, 6});
    const std::vector<Tensor> expected = norm_results(norm, x, {kLast, kLast, kLast});
    Tensor wide = zeros({3, 8, 4, 6}, {.device = x[0].device()}).to(kLast);
    wide.narrow(1, 2, 5).copy_(x[0]);
    x[0] = wide.narrow(1, 2, 5).requires_grad_();
    REQUIRE(x[0].memory_format() == kLast);
    REQUIRE_FALSE(x[0].is_contiguous(kLast));
    const Tensor mean = x[2] + 0.25, var = full({5}, 1.75, {.device = x[0].device()}),
                 y = norm(x, norm.options(x, mean.clone(), var));
    CHECK(y.strides() == strides_in(kLast, y.shape()));
    const std::vector<Tensor> g = grad({y}, {x[0]}, {}, std::vector{seed_like(y)});
    CHECK(g[0].strides() == strides_in(kLast, y.shape()));
    CHECK(same_bits({y.detach(), g[0]}, {expected[0], expected[3]}));
  }
}

TEST_CASE("batch_norm_relu of channels-last images has the bits of the separate ops", "[ops]") {
  manual_seed(35);
  for (const bool residual : {false, true})
    for (const DType dtype : {f32, f16}) {
      const Norm norm{true, residual, true};
      INFO(norm_label(norm, dtype, {3, 5, 7, 6}));
      std::vector<Tensor> x = norm_operands(norm, dtype, {3, 5, 7, 6});
      for (Tensor& t : x) t = (t.dim() == 4 ? t.to(kLast) : t).requires_grad_();
      const Tensor joined = norm(x, norm.options(x, {}, {}));
      const Tensor normal = batch_norm(x[0], norm.options(x, {}, {}));
      const Tensor parts = relu(residual ? normal + x[3] : normal);
      const Tensor g = seed_like(joined).to(kLast);
      CHECK(same_bits({joined.detach()}, {parts.detach()}));
      CHECK(same_bits(grad({joined}, x, {}, std::vector{g}), grad({parts}, x, {}, std::vector{g})));
    }
}

TEST_CASE("derivatives of batch norms of channels-last images agree with finite differences",
          "[ops]") {
  manual_seed(36);
  for (const Norm& norm : all_norms())
    for (const Shape& shape : {Shape{2, 3, 2, 2}, Shape{2, 2, 1, 3, 2}}) {
      INFO(norm_label(norm, f64, shape));
      std::vector<Tensor> x = norm_operands(norm, f64, shape);
      for (Tensor& t : x) t = t.to(f64);
      x[0] = x[0].to(kLast);
      if (norm.residual) x[3] = x[3].to(kLast);
      for (Tensor& t : x) t = t.detach().requires_grad_();
      const Tensor mean = full({shape[1]}, 0.25, {.dtype = f64, .device = x[0].device()}),
                   var = mean + 1.5;
      const auto call = [&](const std::vector<Tensor>& in) {
        return std::vector{norm(in, norm.options(in, mean.clone(), var.clone()))};
      };
      CHECK(gradcheck(call, x).report == "");
      CHECK(gradgradcheck(call, x).report == "");
    }
}
