// Loss modules against the functions they call.
#include "support.h"

using namespace mezzo;

TEST_CASE("options of losses are given by name, or the first one alone") {
  manual_seed(2);
  const Tensor x = randn({4, 3}), t = randn({4, 3}), y = tensor({0, 2, 1, 1}), w = rand({3}) + 0.5;
  CHECK(values(nn::CrossEntropyLoss{w}(x, y)) == values(cross_entropy(x, y, {.weight = w})));
  CHECK(values(nn::CrossEntropyLoss({.label_smoothing = 0.1})(x, y)) ==
        values(cross_entropy(x, y, {.label_smoothing = 0.1})));
  CHECK(values(nn::MSELoss{Reduction::sum}(x, t)) ==
        values(mse_loss(x, t, {.reduction = Reduction::sum})));
  CHECK(values(nn::HuberLoss{0.5}(x, t)) == values(huber_loss(x, t, {.delta = 0.5})));
  CHECK(values(nn::SmoothL1Loss{0.5}(x, t)) == values(smooth_l1_loss(x, t, {.beta = 0.5})));
  CHECK(values(nn::TripletMarginLoss{0.5}(x, t, x * 2)) ==
        values(triplet_margin_loss(x, t, x * 2, {.margin = 0.5})));
  CHECK(nn::CrossEntropyLoss{.weight = w}.buffer("weight").shape() == Shape{3});
  CHECK(nn::CrossEntropyLoss{}.named_buffers().empty());
  const nn::BCEWithLogitsLoss both{.weight = w, .pos_weight = w};
  CHECK(both.named_buffers().size() == 2);
  CHECK_FALSE(both.weight.is_same(w));
}

TEST_CASE("losses call their functions with their options") {
  manual_seed(3);
  const Tensor x = randn({6, 4}), t = randn({6, 4}), p = rand({6, 4}), q = rand({6, 4});
  const Tensor y = randint(0, 4, {6}), w = tensor({1., 2, 3, 4});
  CHECK(values(nn::CrossEntropyLoss{}(x, y)) == values(cross_entropy(x, y)));
  CHECK(values(nn::CrossEntropyLoss{.weight = w, .label_smoothing = 0.1}(x, y)) ==
        values(cross_entropy(x, y, {.weight = w, .label_smoothing = 0.1})));
  CHECK(values(nn::NLLLoss{.weight = w, .reduction = Reduction::sum}(x, y)) ==
        values(nll_loss(x, y, {.weight = w, .reduction = Reduction::sum})));
  CHECK(values(nn::MSELoss{}(x, t)) == values(mse_loss(x, t)));
  CHECK(values(nn::MSELoss{.reduction = Reduction::none}(x, t)).size() == 24);
  CHECK(values(nn::L1Loss{}(x, t)) == values(l1_loss(x, t)));
  CHECK(values(nn::SmoothL1Loss{.beta = 0.5}(x, t)) == values(smooth_l1_loss(x, t, {.beta = 0.5})));
  CHECK(values(nn::HuberLoss{.delta = 0.5}(x, t)) == values(huber_loss(x, t, {.delta = 0.5})));
  CHECK(values(nn::KLDivLoss{}(x, p)) == values(kl_div(x, p)));
  CHECK(values(nn::BCELoss{}(p, q)) == values(binary_cross_entropy(p, q)));
  CHECK(values(nn::BCEWithLogitsLoss{.pos_weight = w}(x, q)) ==
        values(binary_cross_entropy_with_logits(x, q, {.pos_weight = w})));
}

TEST_CASE("a loss's weights are buffers of the loss") {
  const Tensor w = tensor({1., 2, 3});
  const nn::BCEWithLogitsLoss loss{.weight = w, .pos_weight = w};
  CHECK(keys(loss) == "weight [3], pos_weight [3]");
  loss.to(f64);
  CHECK(w.dtype() == f32);
  const Tensor x = ones({2, 3}, {.dtype = f64}), t = zeros({2, 3}, {.dtype = f64});
  CHECK(loss(x, t).dtype() == f64);
}
