// Values at the edges of a dtype's range: infinite scores, sums of powers that overflow or
// underflow although the result does not, statistics that 16 bits cannot hold.
#include <cmath>

#include "../support/catch.h"
#include "edges.h"

using namespace mezzo;
using cases::test_device;
using edges::check_near;
using edges::made;
using edges::Values;
using edges::values;
using testing::kInf;
using testing::kNan;

namespace {

using List = const std::vector<Tensor>&;

/** Checks f(x) and the gradient of its sum, by the fused kernels and with a graph. */
template <class F>
void check_with_gradient(F&& f, const Tensor& x, const Values& value, const Values& gradient,
                         double error = 1e-5) {
  for (const bool create_graph : {false, true}) {
    INFO(name(x.dtype()) << ", create_graph " << create_graph);
    const Tensor leaf = x.clone().requires_grad_();
    const Tensor y = f(leaf);
    check_near(y, value, error);
    check_near(grad({sum(y.to(f64))}, {leaf}, {.create_graph = create_graph})[0], gradient, error);
  }
}

/** Returns the gradient of sum(weight * gradient of sum(f(x))): a row of the second derivative. */
template <class F> Tensor second(F&& f, const Tensor& x, const Values& weight) {
  const Tensor leaf = x.clone().requires_grad_();
  const Tensor first = grad({sum(f(leaf))}, {leaf}, {.create_graph = true})[0];
  return grad({sum(first * made(weight, x.shape(), x.dtype()))}, {leaf})[0];
}

/** Returns the error of one rounding to a dtype, with room for a few more. */
double rounding_error(DType dtype) {
  return dtype == f16 ? 1e-3 : dtype == bf16 ? 8e-3 : dtype == f64 ? 1e-12 : 1e-6;
}

}  // namespace

// ---- losses -------------------------------------------------------------------------------------

TEST_CASE("cross entropies of infinite scores are 0 or inf, with finite gradients",
          "[ops][edges]") {
  for (const DType dtype : {f16, bf16, f32, f64}) {
    const Tensor x = made({-kInf, kInf, -kInf, -kInf, kInf, kInf, -kInf, kInf}, dtype);
    const Tensor t = made({0, 1, 1, 0.9, 0, 0.9, 0, 1}, dtype);
    const Values losses{0, 0, kInf, kInf, kInf, kInf, 0, 0};
    const Values slopes{0, 0, -1, -0.9, 1, 0.1, 0, 0};
    const auto loss = [&](const BinaryCrossEntropyWithLogitsOptions& options) {
      return [=](const Tensor& at) {
        BinaryCrossEntropyWithLogitsOptions all = options;
        all.reduction = Reduction::none;
        return binary_cross_entropy_with_logits(at, t, all);
      };
    };
    const double error = 10 * rounding_error(dtype);
    check_with_gradient(loss({}), x, losses, slopes, error);
    check_with_gradient(loss({.pos_weight = made({1}, dtype)}), x, losses, slopes, error);
    check_with_gradient(loss({.pos_weight = made({0}, dtype)}), x, {0, 0, 0, 0, kInf, kInf, 0, 0},
                        {0, 0, 0, 0, 1, 0.1, 0, 0}, error);
    // A weight of 0 leaves out a sample, also one of infinite loss.
    check_with_gradient(loss({.weight = made({0, 1, 0, 0, 0, 0, 1, 0}, dtype)}), x,
                        {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0});
    check_with_gradient(
        [&](const Tensor& at) {
          return multilabel_soft_margin_loss(at.view({4, 2}), t.view({4, 2}),
                                             {.reduction = Reduction::none});
        },
        x, {0, kInf, kInf, 0}, {0, 0, -0.5, -0.45, 0.5, 0.05, 0, 0}, error);
    check_near(second(loss({}), x, Values(8, 1)), Values(8, 0), 0);
  }
}

TEST_CASE("the target of a cross entropy gets no nan from infinite scores", "[ops][edges]") {
  const Tensor x = made({-kInf, kInf, -kInf, kInf}), weight = made({1, 1, 0, 0});
  const Tensor t = made({0, 1, 0.5, 0.5}).requires_grad_();
  const Tensor loss =
      binary_cross_entropy_with_logits(x, t, {.weight = weight, .reduction = Reduction::sum});
  check_near(loss, {0}, 0);
  check_near(grad(loss, t), {kInf, -kInf, 0, 0}, 0);
}

TEST_CASE("losses at probability 0 and infinite scores", "[ops][edges]") {
  const SoftMarginLossOptions each{.reduction = Reduction::none};
  check_with_gradient(
      [](const Tensor& x) { return kl_div(x, made({0, 0, 1, 0}), {.reduction = Reduction::none}); },
      made({-kInf, kInf, -kInf, 0}), {0, 0, kInf, 0}, {0, 0, -1, 0});
  check_with_gradient(
      [](const Tensor& x) {
        return kl_div(x, made({-kInf, -kInf, 0, -200}),
                      {.reduction = Reduction::none, .log_target = true});
      },
      made({-kInf, 3, -kInf, -kInf}), {0, 0, kInf, 0}, {0, 0, -1, 0});
  check_with_gradient(
      [](const Tensor& x) {
        return poisson_nll_loss(x, made({0, 1, 0, 1}), {.reduction = Reduction::none});
      },
      made({-kInf, -kInf, kInf, kInf}), {0, kInf, kInf, kInf}, {0, -1, kInf, kInf});
  check_with_gradient(
      [](const Tensor& x) {
        return poisson_nll_loss(x, made({0, 0, 1}),
                                {.log_input = false, .eps = 0, .reduction = Reduction::none});
      },
      made({0, kInf, kInf}), {0, kInf, kInf}, {1, 1, 1});
  check_with_gradient(
      [&](const Tensor& x) { return soft_margin_loss(x, made({1, -1, 1, 0}), each); },
      made({kInf, -kInf, -kInf, kInf}), {0, 0, kInf, std::log(2.0)}, {0, 0, -1, 0});
  check_with_gradient(
      [&](const Tensor& x) {
        return margin_ranking_loss(x, made({0, 0, 0}), made({0, 1, -1}),
                                   {.reduction = Reduction::none});
      },
      made({kInf, kInf, kInf}), {0, 0, kInf}, {0, 0, 1});
  // Classes of weight 0, and scores that exclude a class.
  const Tensor target = tensor({0, 1}, {.dtype = i64, .device = test_device()});
  for (const double smoothing : {0.0, 0.5}) {
    INFO("smoothing " << smoothing);
    check_with_gradient(
        [&](const Tensor& x) {
          return cross_entropy(
              x.view({2, 2}), target,
              {.weight = made({0, 1}), .reduction = Reduction::sum, .label_smoothing = smoothing});
        },
        made({-kInf, 0, -kInf, 0}), {0}, {0, 0, 0, 0});
  }
  check_with_gradient(
      [](const Tensor& x) {
        return cross_entropy(x.view({2, 2}), made({0, 1, 0, 1}, {2, 2}),
                             {.reduction = Reduction::sum});
      },
      made({-kInf, 0, -kInf, 0}), {0}, {0, 0, 0, 0});
  check_with_gradient(
      [&](const Tensor& x) {
        return nll_loss(x.view({2, 2}), target,
                        {.weight = made({0, 1}), .reduction = Reduction::sum});
      },
      made({-kInf, 0, 0, -2}), {2}, {0, 0, 0, -1});
  for (const int p : {1, 2})
    check_with_gradient(
        [&](const Tensor& x) {
          return multi_margin_loss(x.view({2, 2}), target,
                                   {.p = p, .weight = made({0, 1}), .reduction = Reduction::sum});
        },
        made({-kInf, 0, -kInf, kInf}), {0}, {0, 0, 0, 0});
}

TEST_CASE("kl_div of a negative target is nan", "[ops][edges]") {
  for (const DType dtype : {f16, bf16, f32, f64}) {
    const Tensor t = made({-0.5, 0, 0.5}, dtype);
    const Tensor x = made({1, 1, 1}, dtype).requires_grad_();
    const Tensor y = kl_div(x, t, {.reduction = Reduction::none});
    check_near(y, {kNan, 0, 0.5 * (std::log(0.5) - 1)}, rounding_error(dtype));
    check_near(grad(sum(y), x), {0.5, 0, -0.5}, 0);
  }
}

// ---- statistics in 16 bits ----------------------------------------------------------------------

TEST_CASE("gradients use a statistic before its rounding to 16 bits", "[ops][edges]") {
  const auto log_sum = [](const Tensor& x) { return logsumexp(x, 0); };
  for (const DType dtype : {f16, bf16, f32, f64})
    for (const double at : {0.0, 1000.0, 3000.0, dtype == f16 ? 6e4 : 1e9}) {
      const double third = 1.0 / 3, error = rounding_error(dtype);
      const Tensor x = made({at, at, at}, dtype).requires_grad_();
      INFO(name(dtype) << " at " << at);
      check_near(grad(log_sum(x), x), {third, third, third}, error);
      const Tensor first = grad({log_sum(x)}, {x}, {.create_graph = true})[0];
      check_near(first, {third, third, third}, error);
      check_near(second(log_sum, x.detach(), {1, 0, 0}), {2.0 / 9, -1.0 / 9, -1.0 / 9}, error);
    }
}

TEST_CASE("norm and std whose result overflows f16 have a gradient", "[ops][edges]") {
  const double root = std::sqrt(0.5);
  const Tensor x = made({6e4, 6e4}, f16).requires_grad_();
  check_near(norm(x), {kInf}, 0);
  check_near(grad(norm(x), x), {root, root}, 1e-3);
  const Tensor y = made({6e4, -6e4}, f16).requires_grad_();
  check_near(mezzo::std(y, Dims{0}), {kInf}, 0);
  check_near(grad(mezzo::std(y, Dims{0}), y), {root, -root}, 1e-3);
}

TEST_CASE("logsumexp of a line of -inf is -inf, with gradient 0", "[ops][edges]") {
  for (const DType dtype : {f16, bf16, f32, f64})
    for (const int dim : {0, 1}) {
      const Tensor x = made({-kInf, -kInf, -kInf, 0}, {2, 2}, dtype);
      const auto f = [dim](const Tensor& at) { return logsumexp(at, dim); };
      check_with_gradient(f, x, {-kInf, 0}, {0, 0, 0, 1});
      check_near(second(f, x, {1, 1, 1, 1}).view({4}), {0, 0, 0, 0}, 0);
    }
}

// ---- other functions ----------------------------------------------------------------------------

TEST_CASE("nan in a recurrent layer with relu reaches the gradients, as in relu", "[ops][edges]") {
  const auto leaf = [](const Values& values, const Shape& shape) {
    return made(values, shape).requires_grad_();
  };
  const Tensor x = leaf({kNan, 2}, {1, 2}), w = leaf({3, 5}, {1, 2}), u = leaf({1}, {1, 1});
  const Tensor h = made({1}, {1, 1});
  check_near(x * 0 + relu(x), {kNan, 2});
  const Tensor cell = rnn_relu_cell(x, h, {w, u});
  const Tensor layer = rnn_relu(x.unsqueeze(0), h.unsqueeze(0), {{w, u}}).output;
  for (const Tensor& y : {cell, layer}) {
    check_near(y.flatten(), {kNan});
    const std::vector<Tensor> gradients = grad({sum(y)}, {x, w, u});
    check_near(gradients[0].flatten(), {3, 5});
    check_near(gradients[1].flatten(), {kNan, 2});
    check_near(gradients[2].flatten(), {1});
  }
}

TEST_CASE("the gradient of atan2 exists where its squares leave the range", "[ops][edges]") {
  const Tensor a = made({1e-42, 0, 3e38, 1e-42}).requires_grad_(),
               b = made({0, 1e-30, 0, 1e-30}).requires_grad_();
  const std::vector<Tensor> gradients = grad({sum(atan2(a, b))}, {a, b});
  check_near(gradients[0], {0, 1e30, 0, 1e30});
  check_near(gradients[1].slice(0, 1, 3), {0, -1 / 3e38}, 1e-4);
}

TEST_CASE("the number of coordinates that differ is nan where one is nan", "[ops][edges]") {
  const Tensor a = made({1, kNan, 3, 1, 2, 3}, {2, 3}), b = made({1, 2, 4}, {1, 3});
  check_near(cdist(a, b, {.p = 0}).flatten(), {kNan, 1});
  check_near(pdist(a, {.p = 0}), {kNan});
}

TEST_CASE("where x is nan, clamp to tensors gives x the gradient", "[ops][edges]") {
  const Values x{kNan, -3, 0.5, 3};
  const auto gradient_of = [&](const auto& clamped) {
    const Tensor leaf = made(x).requires_grad_();
    return grad({sum(clamped(leaf))}, {leaf})[0];
  };
  const Tensor low = made({-1, -1, -1, -1}), high = made({1, 1, 1, 1});
  check_near(gradient_of([&](const Tensor& at) { return clamp(at, low, high); }), {1, 0, 1, 0});
  check_near(gradient_of([&](const Tensor& at) { return clamp(at, low, {}); }), {1, 0, 1, 1});
  check_near(gradient_of([&](const Tensor& at) { return clamp(at, {.min = -1, .max = 1}); }),
             {0, 0, 1, 0});
}
