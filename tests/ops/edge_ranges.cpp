// Norms, means and variances of numbers whose powers and sums leave the range of their type
// although the result does not.
#include <cmath>
#include <functional>
#include <utility>

#include "../support/catch.h"
#include "edges.h"

using namespace mezzo;
using cases::same_bits;
using cases::test_device;
using edges::check_near;
using edges::made;
using edges::Values;
using edges::values;
using testing::kInf;
using testing::kNan;

namespace {

/** Checks f(x) and the gradient of its sum, by the fused kernels and with a graph. */
template <class F>
void check_range_with_gradient(F&& f, const Tensor& x, const Values& value, const Values& gradient,
                               double error = 1e-5) {
  for (const bool create_graph : {false, true}) {
    INFO(str(x) << ", create_graph " << create_graph);
    const Tensor leaf = x.clone().requires_grad_();
    const Tensor y = f(leaf);
    check_near(y, value, error);
    check_near(grad({sum(y)}, {leaf}, {.create_graph = create_graph})[0], gradient, error);
  }
}

/** Returns the gradient of sum(weight * gradient of sum(f(x))): a row of the second derivative. */
template <class F> Values second_values(F&& f, const Tensor& x, const Values& weight) {
  const Tensor leaf = x.clone().requires_grad_();
  const Tensor first = grad({sum(f(leaf))}, {leaf}, {.create_graph = true})[0];
  return values(grad({sum(first * made(weight, x.shape(), x.dtype()))}, {leaf})[0]);
}

/** Scales of numbers whose squares are too large or too small, for each dtype that holds them. */
struct Size {
  DType dtype;
  double of;
};
const Size kNormSizes[] = {{f32, 1e20},  {f32, 1e-30},  {f32, 3e37},  {bf16, 1e20}, {bf16, 1e-30},
                           {f64, 1e200}, {f64, 1e-200}, {f64, 1e307}, {f32, 1},     {f64, 1}};

double range_error(DType dtype) { return dtype == bf16 ? 2e-2 : dtype == f16 ? 3e-3 : 1e-5; }

}  // namespace

TEST_CASE("norms of numbers whose powers leave the range", "[ops][edges]") {
  for (const auto& [dtype, size] : kNormSizes)
    for (const double p : {0.5, 1.0, 1.5, 2.0, 3.0, 10.0, -1.0, -2.0, kInf, -kInf}) {
      INFO("p " << p << ", size " << size);
      const double a = 3, b = 4,
                   n = std::isinf(p) ? (p > 0 ? b : a)
                                     : std::pow(std::pow(a, p) + std::pow(b, p), 1 / p);
      if (n * size > 3e38 && dtype != f64) continue;
      const auto slope = [&](double v) {
        if (std::isinf(p)) return v == n ? 1.0 : 0.0;
        return std::pow(v / n, p - 1);
      };
      check_range_with_gradient([p](const Tensor& x) { return vector_norm(x, {}, {.p = p}); },
                                made({a * size, -b * size}, dtype), {n * size},
                                {slope(a), -slope(b)}, range_error(dtype));
    }
  // Other lines of the same call keep their bits, also zeros, infinities and nan.
  for (const double p : {2.0, 3.0}) {
    const Values plain{3, 4, 0.1, 0.7};
    const Tensor alone = norm(made(plain, {2, 2}), {1}, {.p = p});
    Values all = plain;
    all.insert(all.end(), {3e20, 4e20, 3e-30, 4e-30, 0, 0, kInf, 1, kNan, 1, -kInf, kInf});
    const Tensor together = norm(made(all, {8, 2}), {1}, {.p = p});
    CHECK(same_bits(together.narrow(0, 0, 2).contiguous(), alone));
    const double n = std::pow(std::pow(3, p) + std::pow(4, p), 1 / p);
    check_near(together.narrow(0, 2, 6), {n * 1e20, n * 1e-30, 0, kInf, kNan, kInf});
    check_near(norm(made(all, {8, 2}).transpose(0, 1).contiguous(), {0}, {.p = p}).narrow(0, 2, 6),
               {n * 1e20, n * 1e-30, 0, kInf, kNan, kInf});
  }
}

TEST_CASE("long lines whose sums leave the range", "[ops][edges]") {
  for (const std::int64_t n : {1000, 20000, 100003}) {
    const double count = static_cast<double>(n);
    const TensorOptions options{.device = test_device()};
    for (const double size : {1e20, 1e-30, 1e38}) {
      INFO(n << " of " << size);
      const Tensor x = full({n}, size, options);
      if (size * std::sqrt(count) < 3e38) check_near(norm(x), {size * std::sqrt(count)});
      check_near(mean(x), {size});
      check_near(mean(full({3, n}, size, options), 1), {size, size, size});
      check_near(mean(full({n, 4}, size, options), 0), {size, size, size, size});
      check_near(mean(full({2, 3, 5}, 3e38, options), {0, 2}), {3e38, 3e38, 3e38});
      const Tensor signs = remainder(arange(static_cast<double>(n), options), operand(2)) * 2 - 1;
      if (n % 2 == 0)
        check_near(mezzo::std(signs * size, Dims{0}, {.correction = 0}), {size}, 1e-4);
    }
  }
}

TEST_CASE("means and variances of huge numbers", "[ops][edges]") {
  for (const auto& [dtype, size] : kNormSizes) {
    INFO("size " << size);
    const double error = range_error(dtype);
    const double most = dtype == f64 ? 1.7e308 : 3.3e38;
    check_range_with_gradient([](const Tensor& x) { return mean(x); },
                              made({most, most, -most, most}, dtype), {most / 2},
                              {0.25, 0.25, 0.25, 0.25}, error);
    check_range_with_gradient(
        [](const Tensor& x) { return mezzo::std(x, Dims{0}, {.correction = 0}); },
        made({size, -size}, dtype), {size}, {0.5, -0.5}, error);
    check_range_with_gradient(
        [](const Tensor& x) { return mezzo::std(x, Dims{0}, {.correction = 0}); },
        made({size, size}, dtype), {0}, {0, 0}, error);
    check_near(var(made({most, -most, most, -most}, dtype), Dims{0}), {kInf}, error);
  }
  check_near(mezzo::std(made({1e18, -1e18}), Dims{0}, {.correction = 0}), {1e18});
}

TEST_CASE("local_response_norm of huge numbers", "[ops][edges]") {
  const double size = 1e20, at = size / std::pow(1e-4 * size * size / 2, 0.75);
  check_near(local_response_norm(made({size, 1, size, 1}, {1, 4, 1}), 2),
             {at, 1 / std::pow(1e-4 * size * size / 2, 0.75), at,
              1 / std::pow(1e-4 * size * size / 2, 0.75)},
             1e-4);
}

TEST_CASE("mean pooling of huge numbers", "[ops][edges]") {
  for (const DType dtype : {f32, bf16, f64}) {
    const double most = dtype == f64 ? 1.7e308 : 3e38;
    const Tensor x = made({most, most, -most, most, most, most, 1, 2}, {1, 2, 2, 2}, dtype);
    check_near(avg_pool2d(x, 2), {most / 2, most / 2}, range_error(dtype));
    check_near(avg_pool1d(x.view({1, 2, 4}), {2}), {most, 0, most, 1.5}, range_error(dtype));
    check_near(adaptive_avg_pool2d(x, 1), {most / 2, most / 2}, range_error(dtype));
  }
  check_near(avg_pool1d(made({kInf, 1, kNan, 1}, {1, 1, 4}), 2), {kInf, kNan});
}

TEST_CASE("distances of numbers whose powers leave the range", "[ops][edges]") {
  for (const auto& [dtype, size] : kNormSizes)
    for (const double p : {1.5, 2.0, 3.0}) {
      if (size > 1e37 && dtype == f32) continue;
      INFO("p " << p << ", size " << size);
      const double n = std::pow(std::pow(3, p) + std::pow(4, p), 1 / p), error = range_error(dtype);
      const Values at{3 * size, -4 * size};
      const Values slopes{std::pow(3 / n, p - 1), -std::pow(4 / n, p - 1)};
      const Tensor x = made(at, {1, 2}, dtype), zero = made({0, 0}, {1, 2}, dtype);
      check_range_with_gradient([&](const Tensor& v) { return dist(v, zero, {.p = p}); }, x,
                                {n * size}, slopes, error);
      check_range_with_gradient([&](const Tensor& v) { return cdist(v, zero, {.p = p}); }, x,
                                {n * size}, slopes, error);
      check_range_with_gradient([&](const Tensor& v) { return pdist(cat({v, zero}), {.p = p}); }, x,
                                {n * size}, slopes, error);
      check_range_with_gradient(
          [&](const Tensor& v) { return pairwise_distance(v, zero, {.p = p, .eps = 0}); }, x,
          {n * size}, slopes, error);
      check_near(normalize(x, {.p = p, .eps = 0}), {3 / n, -4 / n}, error);
      if (size >= 1)  // 1e-7 is added to the norm
        check_near(renorm(cat({x, x}), p, 0, n * size / 2).narrow(0, 0, 1), {1.5 * size, -2 * size},
                   error);
      check_near(lp_pool1d(x.view({1, 1, 2}), p, 2), {n * size}, error);
      const Tensor near = made({0, -4 * size}, {1, 2}, dtype);
      check_range_with_gradient(
          [&](const Tensor& v) {
            return triplet_margin_loss(v, zero, near, {.margin = 0, .p = p, .eps = 0});
          },
          x, {(n - 3) * size}, {slopes[0] - 1, slopes[1]}, 5 * error);
    }
}

TEST_CASE("cdist by products of numbers whose squares leave the range", "[ops][edges]") {
  for (const double size : {1e20, 1e-30}) {
    INFO("size " << size);
    Tensor x = zeros({30, 2}, {.device = test_device()}),
           y = zeros({1, 2}, {.device = test_device()});
    x = x + made({3 * size, 4 * size});
    const auto f = [&](const Tensor& v) { return cdist(v, y).narrow(0, 0, 1); };
    check_near(f(x), {5 * size}, 1e-4);
    const Tensor leaf = x.clone().requires_grad_();
    check_near(grad(sum(f(leaf)), leaf).narrow(0, 0, 1), {0.6, 0.8}, 1e-4);
  }
}

TEST_CASE("cosines of huge and tiny vectors", "[ops][edges]") {
  for (const double a : {1e10, 1e20, 1e30, 1.0})
    for (const double b : {1e10, 1e20, 1e30, 1.0}) {
      INFO(a << " and " << b);
      const Tensor x = made({a, a}, {1, 2}), y = made({b, b}, {1, 2}),
                   across = made({b, -b}, {1, 2});
      const Tensor one = made({1});
      check_near(cosine_similarity(x, y), {1});
      check_near(cosine_similarity(x, across), {0});
      check_near(cosine_embedding_loss(x, y, one) + 1, {1});
      check_near(cosine_embedding_loss(x, across, one), {1});
      const Tensor leaf = x.clone().requires_grad_();
      check_near(grad(sum(cosine_similarity(leaf, across)), leaf) * a, {0.5, -0.5});
      check_near(grad(cosine_embedding_loss(leaf, across, one), leaf) * a, {-0.5, 0.5});
    }
  check_near(
      cosine_similarity(made({1e-25, 1e-25}, {1, 2}), made({1e-25, 1e-25}, {1, 2}), {.eps = 0}),
      {1});
}

TEST_CASE("norm layers of huge numbers have mean square 1", "[ops][edges]") {
  for (const DType dtype : {f32, bf16, f64})
    for (const double size : {1e20, 1e25, dtype == f64 ? 1e300 : 1e37}) {
      INFO(name(dtype) << " of " << size);
      const double error = range_error(dtype);
      const TensorOptions options{.dtype = f64, .device = test_device()};
      // Packs and other lengths; values of both signs.
      for (const std::int64_t n : {8, 32, 7}) {
        const Tensor plain = sin(arange(static_cast<double>(4 * 4 * n), options)).view({4, 4, n});
        const Tensor x = (plain * size).to(dtype);
        const auto mean_square = [](const Tensor& y, const Dims& dims) {
          return mean(square(y.to(f64)), dims);
        };
        const auto same = [&](const Tensor& y, const Tensor& of_plain) {
          check_near(y.to(f64) + 10, values(of_plain + 10), error);
        };
        const Tensor reference = plain.to(f64);
        same(layer_norm(x, {n}), layer_norm(reference, {n}, {.eps = 0}));
        same(rms_norm(x, {n}), rms_norm(reference, {n}, {.eps = 0}));
        same(group_norm(x, 2), group_norm(reference, 2, {.eps = 0}));
        same(instance_norm(x), instance_norm(reference, {.eps = 0}));
        same(batch_norm(x, {.training = true}),
             batch_norm(reference, {.training = true, .eps = 0}));
        const Tensor flat = x.view({16, n}), flat_reference = reference.view({16, n});
        same(batch_norm(flat, {.training = true}),
             batch_norm(flat_reference, {.training = true, .eps = 0}));
        check_near(mean_square(rms_norm(x, {n}), {}), {1}, error);
      }
    }
}

TEST_CASE("gradients of norm layers of huge numbers", "[ops][edges]") {
  const TensorOptions options{.dtype = f64, .device = test_device()};
  const std::pair<double, std::int64_t> cases[] = {{1e20, 8}, {1e20, 7}, {1e25, 8}, {1e36, 8}};
  for (const std::pair<double, std::int64_t>& one : cases) {
    const double size = one.first;
    const std::int64_t n = one.second;
    const Tensor plain = sin(arange(static_cast<double>(4 * 4 * n), options)).view({4, 4, n});
    const Tensor weight = cos(arange(static_cast<double>(4 * 4 * n), options)).view({4, 4, n});
    const auto compare = [&](const char* what, auto&& layer) {
      for (const bool create_graph : {false, true}) {
        INFO(what << ", " << size << ", " << n << ", create_graph " << create_graph);
        const auto gradient = [&](const Tensor& x, double eps) {
          const Tensor leaf = x.clone().requires_grad_();
          return grad({sum(layer(leaf, eps) * weight.to(x.dtype()))}, {leaf},
                      {.create_graph = create_graph})[0]
              .to(f64);
        };
        const Tensor expected = gradient(plain, 0) + 10;
        check_near(gradient((plain * size).to(f32), 1e-5) * size + 10, values(expected), 1e-5);
      }
    };
    compare("layer", [n](const Tensor& x, double eps) { return layer_norm(x, {n}, {.eps = eps}); });
    compare("rms", [n](const Tensor& x, double eps) { return rms_norm(x, {n}, {.eps = eps}); });
    compare("group", [](const Tensor& x, double eps) { return group_norm(x, 2, {.eps = eps}); });
    compare("instance", [](const Tensor& x, double eps) { return instance_norm(x, {.eps = eps}); });
    compare("batch", [](const Tensor& x, double eps) {
      return batch_norm(x, {.training = true, .eps = eps});
    });
  }
}

TEST_CASE("second derivatives of norms of huge and tiny numbers", "[ops][edges]") {
  for (const double size : {1e20, 1e-20, 1.0}) {
    INFO("size " << size);
    const Tensor x = made({3 * size, 4 * size});
    const auto check = [&](auto&& f, const Values& expected) {
      Values got = second_values(f, x, {1, 0});
      for (double& value : got) value *= size;
      check_near(tensor(got, {.dtype = f64}), expected, 1e-4);
    };
    // of sqrt(a^2 + b^2): b^2 / n^3 and -a b / n^3
    check([](const Tensor& v) { return norm(v); }, {16.0 / 125, -12.0 / 125});
    check([](const Tensor& v) { return vector_norm(v, {}, {.p = 3}); },
          {2 * 3 * 64 / std::pow(91, 5.0 / 3), -2 * 9 * 16 / std::pow(91, 5.0 / 3)});
  }
}

// ---- pooling ------------------------------------------------------------------------------------

TEST_CASE("local_response_norm of tiny numbers returns them", "[ops][edges]") {
  for (const Size& size : {Size{f32, 1e-20}, {bf16, 1e-30}, {f64, 1e-200}, {f32, 1e-8}}) {
    INFO(name(size.dtype) << " " << size.of);
    const Values x{size.of, -2 * size.of, 3 * size.of, 4 * size.of};
    check_range_with_gradient([](const Tensor& t) { return local_response_norm(t, 2); },
                              made(x, {1, 2, 2}, size.dtype), x, {1, 1, 1, 1},
                              range_error(size.dtype));
  }
}

TEST_CASE("recorded gradients of norm layers of tiny numbers are those of the kernels",
          "[ops][edges]") {
  const std::function<Tensor(const Tensor&)> layers[] = {
      [](const Tensor& x) { return layer_norm(x, {4}); },
      [](const Tensor& x) { return rms_norm(x, {4}, {.eps = 1e-6}); },
      [](const Tensor& x) { return batch_norm(x, {.training = true}); },
      [](const Tensor& x) { return batch_norm_relu(x, {.training = true}); },
      [](const Tensor& x) { return group_norm(x, 2); },
      [](const Tensor& x) { return instance_norm(x.view({1, 3, 4})); },
  };
  for (const Size& size :
       {Size{f32, 1e-8}, {f32, 1e-12}, {f32, 1e-20}, {bf16, 1e-20}, {f32, 1e-37}, {f64, 1e-200}})
    for (std::size_t i = 0; i < std::size(layers); ++i) {
      INFO(name(size.dtype) << " " << size.of << ", layer " << i);
      Values numbers, weights;
      for (int k = 0; k < 12; ++k) {
        numbers.push_back(size.of * std::sin(1.7 * k));
        weights.push_back(std::cos(2.9 * k));
      }
      const Tensor x = made(numbers, {3, 4}, size.dtype).requires_grad_();
      const Tensor w = made(weights, {3, 4}, size.dtype);
      const auto gradient = [&](bool create_graph) {
        const Tensor y = layers[i](x).view({3, 4});
        return grad({sum(y * w)}, {x}, {.create_graph = create_graph})[0];
      };
      const Values expected = values(gradient(false)), got = values(gradient(true));
      double largest = 0;
      for (const double e : expected) largest = std::max(largest, std::fabs(e));
      CHECK(largest > 100);
      for (std::size_t k = 0; k < 12; ++k)
        CHECK(std::fabs(got[k] - expected[k]) <= range_error(size.dtype) * largest);
    }
}

TEST_CASE("cosine_embedding_loss of tiny vectors has a finite gradient", "[ops][edges]") {
  for (const DType dtype : {f32, bf16, f64})
    for (const double size : {1e-20, 1e-37}) {
      INFO(name(dtype) << " " << size);
      const Tensor x = made({size, 2 * size}, dtype).requires_grad_(), y = made({3, 4}, dtype);
      const Tensor loss = cosine_embedding_loss(x, y, tensor(1., {.device = test_device()}));
      check_near(loss, {1});
      // cos = x y / (|y| 1e-6).
      check_near(grad(loss, x), {-0.6e6, -0.8e6}, range_error(dtype));
    }
}

TEST_CASE("the gradient of a norm is 0 at zeros beside tiny numbers", "[ops][edges]") {
  for (const double p : {1.5, 3.0, 9.0})
    for (const double size : {1e-7, 1e-30, 1.0, 1e20}) {
      INFO(p << " " << size);
      check_range_with_gradient([&](const Tensor& x) { return norm(x, {}, {.p = p}); },
                                made({0, size, 0}), {size}, {0, 1, 0});
      const Values row = second_values([&](const Tensor& x) { return norm(x, {}, {.p = p}); },
                                       made({0, size, 0}), {1, 1, 1});
      CHECK(std::fabs(row[1]) * size < 1e-5);
      CHECK((row[0] == 0 || p < 2));
    }
}

TEST_CASE("gradients of distances as small as subnormal numbers", "[ops][edges]") {
  const double size = 0x1p-140;
  const auto distance = [](const Tensor& x) { return cdist(x, zeros_like(x).detach()) * 4.0; };
  check_range_with_gradient(distance, made({3 * size, 4 * size}, {1, 2}), {20 * size}, {2.4, 3.2});
  check_range_with_gradient([](const Tensor& x) { return pdist(x) * 4.0; },
                            made({3 * size, 4 * size, 0, 0}, {2, 2}), {20 * size},
                            {2.4, 3.2, -2.4, -3.2});
  const double tiny = 1e-20;  // the second derivatives are u^2 / |x|^3
  const Values row = second_values([](const Tensor& x) { return cdist(x, zeros_like(x).detach()); },
                                   made({3 * tiny, 4 * tiny}, {1, 2}), {4, -3});
  CHECK(row[0] == Approx(4 / (5 * tiny)).epsilon(1e-5));
  CHECK(row[1] == Approx(-3 / (5 * tiny)).epsilon(1e-5));
}

TEST_CASE("terms of losses and activations whose parts leave the range", "[ops][edges]") {
  for (const DType dtype : {f32, bf16}) {
    INFO(name(dtype));
    const Tensor x = made({2e20}, dtype).requires_grad_(), zero = made({0}, dtype);
    const Tensor var = made({1e20}, dtype).requires_grad_();
    const double t = x.item<double>(), v = var.item<double>();
    const Tensor loss = nn::GaussianNLLLoss{}(x, zero, var);
    check_near(loss, {t * t / v / 2}, range_error(dtype));
    check_near(grad({loss}, {x})[0], {t / v}, range_error(dtype));
    check_near(grad({nn::GaussianNLLLoss{}(x, zero, var)}, {var})[0], {-t * t / v / v / 2},
               range_error(dtype));
    check_range_with_gradient([](const Tensor& at) { return asinh(at); },
                              made({2e20, -2e20}, dtype), {std::asinh(t), -std::asinh(t)},
                              {1 / t, 1 / t}, range_error(dtype));
    check_range_with_gradient(
        [](const Tensor& at) { return softplus(at, {.beta = 2, .threshold = 1000}); },
        made({100, 30, -300}, dtype), {100, 30, 0}, {1, 1, 0}, range_error(dtype));
  }
  CHECK(values(softplus(made({60000}, f16), {.threshold = 1e6}))[0] == 60000);
  const Tensor target = made({3e19}, bf16).requires_grad_(), rate = made({2.8e19}, bf16);
  const Tensor loss = poisson_nll_loss(rate, target, {.log_input = false, .full = true});
  const double t = target.item<double>(), r = rate.item<double>();
  check_near(grad(loss, target), {std::log(t / r) + 0.5 / t}, 1e-2);
}

TEST_CASE("interpolation between numbers whose difference leaves the range", "[ops][edges]") {
  for (const DType dtype : {f32, bf16, f64}) {
    INFO(name(dtype));
    const double most = dtype == f64 ? 0x1p1023 : 0x1p127;
    const Tensor low = made({-most, -kInf, 1, 5, kNan}, dtype),
                 high = made({most, 2, kInf, kInf, 1}, dtype);
    check_near(lerp(low, high, 0.75), {most / 2, -kInf, kInf, kInf, kNan}, range_error(dtype));
    check_near(lerp(low, high, 0.25), {-most / 2, -kInf, kInf, kInf, kNan}, range_error(dtype));
    check_near(lerp(low, high, 0), {-most, -kInf, 1, 5, kNan}, 0);
    check_near(lerp(low, high, 1), {most, 2, kInf, kInf, kNan}, 0);
    check_near(quantile(made({-most, most}, dtype), 0.25), {-most / 2}, range_error(dtype));
    check_near(quantile(made({-kInf, 2, 3, kInf}, dtype), 0.25), {-kInf});
    check_near(quantile(made({-kInf, 2, 3, kInf}, dtype), 0.75), {kInf});
  }
}

TEST_CASE("lp_pool is the norm of each window", "[ops][edges]") {
  for (const DType dtype : {f16, bf16, f32, f64}) {
    const Tensor x = made({-3, 4}, {1, 1, 2}, dtype);
    const auto pool = [](double p) { return [p](const Tensor& v) { return lp_pool1d(v, p, 2); }; };
    const double error = range_error(dtype), n = std::pow(std::pow(3, 1.5) + 8, 1 / 1.5);
    check_range_with_gradient(pool(1), x, {7}, {-1, 1}, error);
    check_range_with_gradient(pool(2), x, {5}, {-0.6, 0.8}, error);
    check_range_with_gradient(pool(1.5), x, {n}, {-std::sqrt(3 / n), std::sqrt(4 / n)}, error);
    check_range_with_gradient(pool(kInf), x, {4}, {0, 1}, error);
    check_range_with_gradient(pool(3), made({-3, -4}, {1, 1, 2}, dtype), {std::cbrt(91.0)},
                              {-9 / std::pow(91, 2.0 / 3), -16 / std::pow(91, 2.0 / 3)}, error);
    check_range_with_gradient(pool(2), made({0, 0}, {1, 1, 2}, dtype), {0}, {0, 0}, error);
    check_range_with_gradient(pool(0.5), made({0, 4}, {1, 1, 2}, dtype), {4}, {0, 1}, error);
    check_near(lp_pool2d(made({-1, 2, -2, 4, -4, 7}, {1, 2, 3}, dtype), 2, 2,
                         {.stride = 2, .ceil_mode = true}),
               {std::sqrt(37.0), std::sqrt(106.0)}, error);
  }
}

// ---- numbers ------------------------------------------------------------------------------------

TEST_CASE("a number given as an argument is rounded once", "[ops][numbers]") {
  struct Number {
    DType dtype;
    double given, rounded;
  };
  // A little above a tie between two numbers of the dtype, which rounding to f32 first would reach.
  const Number numbers[] = {{f16, 1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-10},
                            {bf16, 1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-7},
                            {f16, -1 - 0x1p-11 - 0x1p-40, -1 - 0x1p-10}};
  for (const Number& row : numbers) {
    const DType dtype = row.dtype;
    const double given = row.given, rounded = row.rounded;
    INFO(name(dtype) << ", " << given);
    const Tensor x = made({-2, -2}, dtype), low = made({-9, -9}, dtype), high = made({9, 9}, dtype);
    const Tensor mask = tensor({1, 1}, {.dtype = boolean, .device = test_device()});
    const Tensor zero_dim = tensor(given, {.dtype = f64, .device = test_device()});
    const Values expected{rounded, rounded};
    const auto all = [&](const Tensor& y) {
      CHECK(y.dtype() == dtype);
      check_near(y, expected, 0);
    };
    for (const Tensor& number : {operand(given), zero_dim}) {
      all(masked_fill(x, mask, number));
      Tensor self = x.clone();
      all(masked_fill_(self, mask, number));
      all(where(mask, number, x));
      all(where(logical_not(mask), x, number));
      all(maximum(low, number));
      all(maximum(number, low));
      all(minimum(high, number));
      all(clamp(low, number, {}));
      all(clamp(high, {}, number));
    }
    all(clamp(low, {.min = given}));
    all(threshold(x, 0, given));
    all(nan_to_num(made({kNan, kNan}, dtype), {.nan = given}));
    all(nan_to_num(made({kInf, kInf}, dtype), {.posinf = given}));
    all(nan_to_num(made({-kInf, -kInf}, dtype), {.neginf = given}));
    all(threshold_(x.clone(), 0, given));
    all(hardtanh(low, {.min = given, .max = 9}));
    all(hardtanh(high, {.min = -9, .max = given}));
    all(full({2}, given, {.dtype = dtype, .device = test_device()}));
    all(tensor({given, given}, {.dtype = dtype, .device = test_device()}));
    all(x.clone().fill_(given));
    check_near(pad(x, {1, 1}, {.value = given}), {rounded, -2, -2, rounded}, 0);
    const Tensor index = tensor({0, 1}, {.dtype = i64, .device = test_device()});
    all(index_fill(x, 0, index, operand(given)));
    all(scatter(x, 0, index, given));
    all(index_put(x, {index}, operand(given)));
    const Tensor self = x.clone();
    self[{Slice{}}] = given;
    all(self);
  }
  // An integer that f32 cannot hold.
  constexpr std::int64_t kTie = (std::int64_t{1} << 30) + (std::int64_t{1} << 22) + 1;
  const Tensor x = made({0, 0}, bf16);
  const Tensor mask = tensor({1, 1}, {.dtype = boolean, .device = test_device()});
  check_near(masked_fill(x, mask, operand(kTie)), {0x1p30 + 0x1p23, 0x1p30 + 0x1p23}, 0);
}

// ---- random numbers -----------------------------------------------------------------------------

TEST_CASE("uniform numbers of a range whose width is infinite", "[ops][edges]") {
  for (const DType dtype : {f32, bf16, f16, f64}) {
    INFO(name(dtype));
    const double most = dtype == f64 ? 1.7e308 : dtype == f16 ? 65504 : 3.3e38;
    manual_seed(1);
    const Tensor x = zeros({4096}, {.dtype = dtype, .device = test_device()});
    uniform_(x, -most, most);
    const Tensor shares = x.to(f64) / most;
    CHECK(amax(shares).item<double>() < 1);
    CHECK(amax(shares).item<double>() > 0.99);
    CHECK(amin(shares).item<double>() < -0.99);
    CHECK(std::fabs(mean(shares).item<double>()) < 0.05);
    if (dtype != f64) CHECK_THROWS_AS(uniform_(x, 0, 1e39), ValueError);
  }
}

TEST_CASE("uniform numbers of every dtype stay below the upper end", "[ops][edges]") {
  const std::int64_t count = mezzo::testing::is_slow() ? 1 << 18 : 1 << 20;
  for (const DType dtype : {f16, bf16, f32, f64}) {
    INFO(name(dtype));
    manual_seed(1);
    const Tensor x = rand({count}, {.dtype = dtype, .device = test_device()});
    CHECK(count_nonzero(x >= 1.0).item<std::int64_t>() == 0);
    CHECK(count_nonzero(x < 0.0).item<std::int64_t>() == 0);
    // Uniform: each of 16 equal parts has its share, and the mean is half a unit of rounding low.
    for (int part = 0; part < 16; ++part) {
      const double low = part / 16.0;
      const Tensor within = logical_and(x >= low, x < low + 1 / 16.0);
      const auto found = static_cast<double>(count_nonzero(within).item<std::int64_t>());
      CHECK(std::fabs(found / static_cast<double>(count) - 1 / 16.0) < 1.5e-3);
    }
    for (const auto& [low, high] :
         {std::pair{-1.0, 1.0}, {-3.0, -1.0}, {0.1, 0.3}, {-2.5, 0.0}, {1000.0, 1001.0}}) {
      INFO(low << " to " << high);
      const Tensor y = uniform_(x.clone(), low, high).to(cpu).to(f64);
      CHECK(amax(y).item<double>() < high);
      // A lower end that is no number of the dtype is rounded as all others.
      if (low != 0.1) CHECK(amin(y).item<double>() >= low);
      if (low == 0.1) CHECK(amin(y).item<double>() >= 0.0999);
    }
    manual_seed(1);
    const Tensor on_cpu = rand({4097}, {.dtype = dtype});
    manual_seed(1);
    CHECK(same_bits(rand({4097}, {.dtype = dtype, .device = test_device()}).to(cpu), on_cpu));
  }
}
