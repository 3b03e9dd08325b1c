// Losses in edge cases: nothing to average, classes out of range, mismatched operands.
#include <mezzo.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

Tensor indices(const std::vector<double>& values) { return tensor(values, {.dtype = i64}); }

Tensor gradient_of(const Tensor& loss, const Tensor& x) { return grad(loss, x); }

bool all_zero(const Tensor& x) {
  for (const double v : x.to_vector<double>())
    if (v != 0 || std::isnan(v)) return false;
  return true;
}

}  // namespace

TEST_CASE("cross_entropy of an empty batch: mean nan, sum 0", "[loss]") {
  for (const DType dtype : {f16, f32, f64}) {
    const Tensor x = zeros({0, 4}, {.dtype = dtype, .requires_grad = true});
    CHECK(std::isnan(cross_entropy(x, indices({})).item<double>()));
    CHECK(cross_entropy(x, indices({}), {.reduction = Reduction::sum}).item<double>() == 0);
    CHECK(cross_entropy(x, indices({}), {.reduction = Reduction::none}).shape() == Shape{0});
    CHECK(gradient_of(cross_entropy(x, indices({})), x).shape() == Shape{0, 4});
  }
}

TEST_CASE("cross_entropy with all targets ignored: mean nan, sum 0, gradients exactly 0",
          "[loss]") {
  const Tensor x = tensor({1, 2, INFINITY, std::nan(""), 5, 6}, {2, 3}, {.requires_grad = true});
  const Tensor target = indices({-100, -100});
  CHECK(std::isnan(cross_entropy(x, target).item<double>()));
  CHECK(cross_entropy(x, target, {.reduction = Reduction::sum}).item<double>() == 0);
  CHECK(all_zero(gradient_of(cross_entropy(x, target), x)));
  CHECK(all_zero(gradient_of(cross_entropy(x, target, {.reduction = Reduction::sum}), x)));
  const Tensor composite = grad(cross_entropy(x, target), x, {.create_graph = true});
  CHECK(all_zero(composite));
}

TEST_CASE("ignored rows may hold any values", "[loss]") {
  const Tensor x = tensor({1, 2, 3, INFINITY, NAN, 0}, {2, 3}, {.requires_grad = true});
  const Tensor loss = cross_entropy(x, indices({2, -100}));
  CHECK(loss.item<double>() == Approx(std::log(std::exp(-2.0) + std::exp(-1.0) + 1)));
  const std::vector<double> g = gradient_of(loss, x).to_vector<double>();
  for (std::size_t i = 3; i < 6; ++i) CHECK(g[i] == 0);
}

TEST_CASE("cross_entropy neither overflows nor rounds small losses to 0", "[loss]") {
  const Tensor x = tensor({1000., 0, -1000, 60000, 59999, 0}, {2, 3});
  const std::vector<double> y =
      cross_entropy(x, indices({1, 0}), {.reduction = Reduction::none}).to_vector<double>();
  CHECK(y[0] == 1000);
  CHECK(y[1] == Approx(std::log1p(std::exp(-1.0))));
  // The mean of f16 losses is computed in f32, so that 8 losses of 20,000 do not overflow.
  const Tensor big = tensor(std::vector<double>{20000, 0}, {1, 2}, {.dtype = f16}).expand({8, 2});
  CHECK(cross_entropy(big, full({8}, 1, {.dtype = i64})).item<double>() == 20000);
}

TEST_CASE("a class out of range is reported before anything is read", "[loss]") {
  const Tensor x = zeros({2, 3, 2}, {.requires_grad = true});
  const Tensor bad = tensor(std::vector<double>{0, 1, 2, 3}, {2, 2}, {.dtype = i64});
  CHECK_THROWS_WITH_AS_TEXT(cross_entropy(x, bad), IndexError,
                            "cross_entropy: class out of range; got 3 at target[1,1], expected "
                            "0..2, or ignore_index -100");
  CHECK_THROWS_WITH_AS_TEXT(cross_entropy(zeros({2, 3}), indices({-1, 0})), IndexError,
                            "got -1 at target[0]");
  CHECK_THROWS_WITH_AS_TEXT(cross_entropy(zeros({1, 0}), indices({0})), IndexError,
                            "expected no class");
}

TEST_CASE("cross_entropy rejects mismatched operands", "[loss]") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS_TEXT(cross_entropy(x, indices({0})), ShapeError,
                            "got f32[2,3]@cpu and target i64[1]@cpu");
  CHECK_THROWS_WITH_AS_TEXT(cross_entropy(zeros({}), tensor(0, {.dtype = i64})), ShapeError,
                            "the scores have no class dimension");
  CHECK_THROWS_WITH_AS_TEXT(cross_entropy(x, zeros({2})), ShapeError,
                            "class probabilities do not fit");
  CHECK_THROWS_WITH_AS_TEXT(cross_entropy(x, zeros({2, 3}, {.dtype = f16})), DtypeError,
                            "f32[2,3]@cpu and f16[2,3]@cpu");
  CHECK_THROWS_WITH_AS_TEXT(cross_entropy(x, Tensor()), ValueError, "undefined");
  CHECK_THROWS_WITH_AS_TEXT(cross_entropy(x, indices({0, 1}), {.weight = ones({2})}), ShapeError,
                            "expected weight [3]");
  CHECK_THROWS_WITH_AS_TEXT(
      cross_entropy(x, indices({0, 1}), {.weight = ones({3}, {.dtype = f16})}), DtypeError,
      "weight.to(f32)");
  CHECK_THROWS_WITH_AS_TEXT(cross_entropy(x, indices({0, 1}), {.label_smoothing = 1.5}), ValueError,
                            "got 1.5, expected 0..1");
  CHECK_THROWS_WITH_AS_TEXT(cross_entropy(x, zeros({2, 3}), {.ignore_index = 1}), ValueError,
                            "class indices only");
}

TEST_CASE("i32 targets are accepted, and class weights get no gradient", "[loss]") {
  const Tensor x = tensor({1., 2, 3, 3, 2, 0}, {2, 3}, {.requires_grad = true});
  const Tensor weight = tensor({1., 2, 3}, {.requires_grad = true});
  const Tensor loss = cross_entropy(x, indices({2, 0}).to(i32), {.weight = weight});
  CHECK(loss.item<double>() ==
        cross_entropy(x, indices({2, 0}), {.weight = weight}).item<double>());
  const std::vector<Tensor> g =
      grad(std::vector<Tensor>{loss}, std::vector<Tensor>{x, weight}, {.allow_unused = true});
  CHECK(g[0].defined());
  CHECK_FALSE(g[1].defined());
}

TEST_CASE("nll_loss: ignored targets, classes out of range", "[loss]") {
  const Tensor x = tensor({-1, -2, -INFINITY, NAN, -5, -6}, {2, 3}, {.requires_grad = true});
  const Tensor loss = nll_loss(x, indices({1, -100}));
  CHECK(loss.item<double>() == 2);
  CHECK(grad(loss, x).to_vector<double>() == std::vector<double>{0, -1, 0, 0, 0, 0});
  CHECK(std::isnan(nll_loss(x, indices({-100, -100})).item<double>()));
  CHECK(nll_loss(x, indices({-100, -100}), {.reduction = Reduction::sum}).item<double>() == 0);
  CHECK(std::isnan(nll_loss(zeros({0, 4}), indices({})).item<double>()));
  CHECK_THROWS_WITH_AS_TEXT(nll_loss(x, indices({0, 3})), IndexError,
                            "nll_loss: class out of range; got 3 at target[1], expected 0..2");
  CHECK_THROWS_WITH_AS_TEXT(nll_loss(x, zeros({2})), DtypeError, "indices must be integers");
}

TEST_CASE("losses at kinks have the documented gradients", "[loss]") {
  const Tensor x = tensor({1., 2, 3}, {.requires_grad = true});
  const Tensor t = tensor({1., 3, 2}, {.requires_grad = true});
  const LossOptions sum{.reduction = Reduction::sum};
  CHECK(grad(l1_loss(x, t, sum), x).to_vector<double>() == std::vector<double>{0, -1, 1});
  CHECK(grad(l1_loss(x, t, sum), t).to_vector<double>() == std::vector<double>{0, 1, -1});
  CHECK(
      grad(smooth_l1_loss(x, t, {.reduction = Reduction::sum, .beta = 0}), x).to_vector<double>() ==
      std::vector<double>{0, -1, 1});
  CHECK(
      grad(huber_loss(x, t, {.reduction = Reduction::sum, .delta = 0.5}), x).to_vector<double>() ==
      std::vector<double>{0, -0.5, 0.5});
}

TEST_CASE("binary_cross_entropy clamps its logarithms and rejects values outside [0, 1]",
          "[loss]") {
  const Tensor x = tensor({0., 1, 0, 1}, {.requires_grad = true});
  const Tensor t = tensor({0., 1, 1, 0});
  const Tensor loss = binary_cross_entropy(x, t, {.reduction = Reduction::none});
  CHECK(loss.to_vector<double>() == std::vector<double>{0, 0, 100, 100});
  const Tensor total = binary_cross_entropy(x, t, {.reduction = Reduction::sum});
  for (const bool create_graph : {false, true})
    for (const double g :
         grad(total, x, {.create_graph = create_graph, .retain_graph = true}).to_vector<double>())
      CHECK(std::isfinite(g));
  CHECK_THROWS_WITH_AS_TEXT(
      binary_cross_entropy(tensor({0.5, -0.25, 2}), ones({3})), ValueError,
      "binary_cross_entropy: x must hold probabilities; got -0.25 at element 1 of f32[3]@cpu");
  CHECK(std::isnan(binary_cross_entropy(tensor(NAN), tensor(1.0)).item<double>()));
}

TEST_CASE("binary_cross_entropy_with_logits does not overflow", "[loss]") {
  const Tensor x = tensor({1000., -1000, 1000, -1000}, {.requires_grad = true});
  const Tensor t = tensor({1., 0, 0, 1});
  CHECK(
      binary_cross_entropy_with_logits(x, t, {.reduction = Reduction::none}).to_vector<double>() ==
      std::vector<double>{0, 0, 1000, 1000});
  CHECK(grad(binary_cross_entropy_with_logits(x, t, {.reduction = Reduction::sum}), x)
            .to_vector<double>() == std::vector<double>{0, 0, 1, -1});
}

TEST_CASE("kl_div is exactly 0 where the target is 0", "[loss]") {
  const Tensor x = tensor({-1., -2}, {.requires_grad = true}),
               t = tensor({0., 1}, {.requires_grad = true});
  const Tensor loss = kl_div(x, t, {.reduction = Reduction::none});
  CHECK(loss.to_vector<double>() == std::vector<double>{0, 2});
  for (const bool create_graph : {false, true}) {
    const GradOptions options{.create_graph = create_graph, .retain_graph = true};
    const Tensor total = kl_div(x, t, {.reduction = Reduction::sum});
    CHECK(grad(total, x, options).to_vector<double>() == std::vector<double>{0, -1});
    CHECK(grad(total, t, options).to_vector<double>() == std::vector<double>{0, 3});
  }
  CHECK_THROWS_WITH_AS_TEXT(mse_loss(x, t, {.reduction = Reduction::batchmean}), ValueError,
                            "mse_loss: the reduction is not supported by this loss");
}

TEST_CASE("means of 16-bit losses accumulate in f32 and round once", "[loss]") {
  const Tensor x = full({5000}, 200, {.dtype = f16, .requires_grad = true});
  const Tensor t = zeros({5000}, {.dtype = f16});
  CHECK(mse_loss(x, t).item<double>() == 40000);
  CHECK(mse_loss(x, t).dtype() == f16);
  CHECK(std::isinf(mse_loss(x, t, {.reduction = Reduction::sum}).item<double>()));
  CHECK(mse_loss(x, t.to(f64)).dtype() == f64);
  CHECK(grad(mse_loss(x, t), x).dtype() == f16);
}

TEST_CASE("differing shapes are warned about once", "[loss]") {
  std::vector<std::string> lines;
  const LogSink before =
      set_log_sink([&](Severity, std::string_view line) { lines.emplace_back(line); });
  const Tensor x = zeros({13, 1}), t = zeros({13});
  for (int i = 0; i < 3; ++i)
    CHECK(mse_loss(x, t, {.reduction = Reduction::none}).shape() == Shape{13, 13});
  set_log_sink(before);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("mse_loss: the shapes of prediction [13,1] and target [13] differ") == 0);
  CHECK_THROWS_WITH_AS_TEXT(l1_loss(zeros({2, 3}), zeros({2})), ShapeError, "l1_loss");
  CHECK_THROWS_WITH_AS_TEXT(l1_loss(zeros({2}, {.dtype = i64}), zeros({2})), DtypeError,
                            "losses need floating-point tensors");
  CHECK_THROWS_WITH_AS_TEXT(smooth_l1_loss(x, x, {.beta = -1}), ValueError, "expected beta >= 0");
  CHECK_THROWS_WITH_AS_TEXT(huber_loss(x, x, {.delta = 0}), ValueError, "expected delta > 0");
  CHECK_THROWS_WITH_AS_TEXT(binary_cross_entropy_with_logits(x, x, {.weight = zeros({2, 13, 1})}),
                            ShapeError, "weight does not fit the loss");
}

TEST_CASE("margin losses: kinks, overflow, mismatched operands", "[loss]") {
  const Tensor x = tensor({1., 2, 3}, {.requires_grad = true}), y = tensor({1., 1, 4});
  CHECK(grad(margin_ranking_loss(x, y, ones({3}), {.reduction = Reduction::sum}), x)
            .to_vector<double>() == std::vector<double>{0, 0, -1});
  CHECK(soft_margin_loss(tensor({1000., -1000}), ones({2}), {.reduction = Reduction::none})
            .to_vector<double>() == std::vector<double>{0, 1000});
  const Tensor scores = tensor({9., 1, 2, 0, 0, 0}, {2, 3}, {.requires_grad = true});
  const Tensor loss = multi_margin_loss(scores, indices({0, 1}));
  CHECK(loss.item<double>() == Approx(1.0 / 3));
  CHECK(grad(loss, scores).to_vector<float>()[0] == 0);
  CHECK_THROWS_WITH_AS_TEXT(
      multi_margin_loss(scores, indices({0, 3})), IndexError,
      "multi_margin_loss: class out of range; got 3 at target[1], expected 0..2");
  CHECK_THROWS_WITH_AS_TEXT(multi_margin_loss(scores, indices({0, 1}), {.p = 3}), ValueError,
                            "expected 1 or 2");
  CHECK_THROWS_WITH_AS_TEXT(triplet_margin_loss(x, x, x, {.p = 0}), ValueError, "expected p > 0");
  CHECK_THROWS_WITH_AS_TEXT(cosine_embedding_loss(scores, scores, x), ShapeError,
                            "do not fit each other");
  CHECK_THROWS_WITH_AS_TEXT(multilabel_soft_margin_loss(zeros({}), zeros({})), ShapeError,
                            "without a dimension");
  CHECK(triplet_margin_loss(x, x, x).item<double>() == 1);
  CHECK(multilabel_margin_loss(x, indices({-1, 0, 1})).item<double>() == 0);
  CHECK_THROWS_WITH_AS_TEXT(multilabel_margin_loss(x, indices({3, -1, -1})), IndexError,
                            "multilabel_margin_loss: class out of range; got 3 at target[0]");
}

TEST_CASE("cross_entropy has the same bits for any number of threads", "[loss]") {
  const int before = num_threads();
  const Tensor x = randn({700, 90}).requires_grad_(), target = randint(0, 90, {700});
  std::vector<std::vector<float>> results;
  for (const int threads : {1, 2, 4, 8}) {
    set_num_threads(threads);
    const Tensor loss = cross_entropy(x, target, {.label_smoothing = 0.1});
    std::vector<float> numbers = grad(loss, x).to_vector<float>();
    numbers.push_back(loss.item<float>());
    results.push_back(std::move(numbers));
  }
  set_num_threads(before);
  for (const std::vector<float>& r : results) CHECK(r == results[0]);
}
