// ctc_loss and local_response_norm where the generated tests do not reach: errors, infinite losses,
// gradients on raw log-probabilities.
#include <mezzo.h>

#include <cmath>

#include "../support/throws.h"
#include "support.h"

using namespace mezzo;

namespace {

using List = std::vector<double>;
using Lengths = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("the gradient of ctc_loss is that of the scores, 0 after an input's end") {
  const Tensor x = log_softmax(arange(12.0).view({3, 1, 4}) * 0.1, -1).requires_grad_();
  const Tensor scores = x.detach().requires_grad_();
  ctc_loss(scores, ints({1}, {1, 1}), {2}, {1}, {.reduction = Reduction::sum}).backward();
  const List g = values(scores.grad());
  CHECK(std::abs(g[0] + g[1] + g[2] + g[3]) < 1e-6);
  CHECK(List(g.begin() + 8, g.end()) == List{0, 0, 0, 0});
  const Tensor loss = ctc_loss(scores, ints({1}, {1, 1}), {2}, {1});
  CHECK_THROWS_AS(loss.backward({}, false, true), Unsupported);
}

TEST_CASE("labels without an alignment give an infinite loss, or 0 with zero_infinity") {
  const Tensor x = log_softmax(zeros({2, 1, 3}), -1).detach().requires_grad_();
  const Tensor targets = ints({1, 1}, {1, 2});
  const Tensor loss = ctc_loss(x, targets, {2}, {2}, {.reduction = Reduction::none});
  CHECK(std::isinf(values(loss)[0]));
  loss.backward(ones({1}));
  for (const double g : values(x.grad())) CHECK(std::isnan(g));
  x.set_grad({});
  const Tensor free = ctc_loss(x, targets, {2}, {2}, {.zero_infinity = true});
  CHECK(free.item<double>() == 0);
  free.backward();
  CHECK(values(x.grad()) == List{0, 0, 0, 0, 0, 0});
  CHECK(ctc_loss(x, zeros({1, 0}, {.dtype = i64}), Lengths{0}, Lengths{0}).item<double>() == 0);
  CHECK(std::isinf(ctc_loss(x, ints({1}, {1, 1}), Lengths{0}, Lengths{1}).item<double>()));
  const double nan = std::nan("");
  CHECK(std::isnan(ctc_loss(full({2, 1, 3}, nan), ints({1}, {1, 1}), {2}, {1}).item<double>()));
}

TEST_CASE("ctc_loss of an empty batch: mean nan, sum 0") {
  const Tensor x = zeros({2, 0, 3}), targets = zeros({0, 1}, {.dtype = i64});
  CHECK(std::isnan(ctc_loss(x, targets, Lengths{}, Lengths{}).item<double>()));
  CHECK(ctc_loss(x, targets, Lengths{}, Lengths{}, {.reduction = Reduction::sum}).item<double>() ==
        0);
}

TEST_CASE("ctc_loss rejects mismatched operands") {
  const Tensor x = log_softmax(zeros({4, 2, 3}), -1), targets = ints({1, 2, 2, 1}, {2, 2});
  CHECK_THROWS_WITH_AS_TEXT(
      ctc_loss(x, targets, {5, 4}, {2, 2}), ValueError,
      "ctc_loss: input_lengths are out of range; got 5 for sample 0, expected 0..4");
  CHECK_THROWS_AS(ctc_loss(x, targets, {4, 4}, {2, 3}), ValueError);
  CHECK_THROWS_AS(ctc_loss(x, targets, {4, 4}, {-1, 2}), ValueError);
  CHECK_THROWS_WITH_AS_TEXT(ctc_loss(x, targets, {4}, {2, 2}), ShapeError,
                            "ctc_loss: input_lengths are not one per sample");
  CHECK_THROWS_WITH_AS_TEXT(ctc_loss(x, ints({1, 3, 2, 1}, {2, 2}), {4, 4}, {2, 2}), IndexError,
                            "ctc_loss: label out of range; got 3 at position 1 of sample 0");
  CHECK_THROWS_AS(ctc_loss(x, ints({1, 0, 2, 1}, {2, 2}), {4, 4}, {2, 2}), IndexError);
  CHECK_THROWS_AS(ctc_loss(x, targets, {4, 4}, {2, 2}, {.blank = 3}), ValueError);
  CHECK_THROWS_AS(ctc_loss(x, targets, {4, 4}, {2, 2}, {.reduction = Reduction::batchmean}),
                  ValueError);
  CHECK_THROWS_AS(ctc_loss(x, ints({1, 2, 2}, {3}), {4, 4}, {2, 2}), ShapeError);
  CHECK_THROWS_AS(ctc_loss(x, ints({1, 2, 2}, {3, 1}), {4, 4}, {1, 1}), ShapeError);
  CHECK_THROWS_AS(ctc_loss(x, targets.to(f32), {4, 4}, {2, 2}), DtypeError);
  CHECK_THROWS_AS(ctc_loss(x, targets, ones({2}), ints({2, 2}, {2})), DtypeError);
  CHECK_THROWS_AS(ctc_loss(x.to(i64), targets, {4, 4}, {2, 2}), DtypeError);
  CHECK_THROWS_AS(ctc_loss(zeros({3}), targets, {4, 4}, {2, 2}), ShapeError);
}

TEST_CASE("local_response_norm rejects mismatched operands") {
  CHECK_THROWS_WITH_AS_TEXT(local_response_norm(zeros({2, 3}), 2), ShapeError,
                            "local_response_norm: wrong number of dimensions; got f32[2,3]@cpu");
  CHECK_THROWS_AS(local_response_norm(zeros({2, 3, 2}), 0), ValueError);
  CHECK_THROWS_AS(local_response_norm(zeros({2, 3, 2}, {.dtype = i64}), 2), DtypeError);
  CHECK_THROWS_AS(local_response_norm(Tensor{}, 2), ValueError);
}
