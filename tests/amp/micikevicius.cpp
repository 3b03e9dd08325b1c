// The experiments of Micikevicius et al., "Mixed Precision Training" (2017), on tiny nets: why f16
// is often sufficient, why some nets need loss scaling, why weights need an f32 master, why sums
// need an f32 accumulator. Every test shows the failure and the remedy.
//
// f16: the largest value is 65504, the smallest positive one 2^-24 (half of it rounds to zero), and
// adding a value below about |w| 2^-11 to a weight w has no effect.
#include "../support/catch.h"
#include "nets.h"

using namespace nets;

namespace {

Tensor targets() { return sin(wave({32, 3}, 4) * 2) * 0.4; }
Tensor wave_samples() { return wave({32, 6}, 0.5); }

/** Two layers that learn `targets` from `samples`. */
struct Pupil : nn::Model<Pupil> {
  Tensor forward(const Tensor& x) const { return second(tanh(first(x))); }
  Affine first = add("first", Affine(6, 16, 0));
  Affine second = add("second", Affine(16, 3, 2));
};

struct TrainingSetup {
  const char* level = "O0";
  amp::LossScale scale = 1.0;
  double weight = 1;  // of the loss; the learning rate compensates for it, so that in exact
                      // arithmetic it has no effect
  int steps = 150;
};

struct Result {
  double first_loss, last_loss;
  double flushed = 0;  // share of the gradients of the first step that are zero
  bool moved = false;  // some weight has changed
};

Result take(const TrainingSetup& course) {
  Pupil net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.2 / course.weight});
  amp::Options options = quiet(course.level);
  options.loss_scale = course.scale;
  options.max_consecutive_skips = 0;  // infinities are not an error
  const auto session = amp::initialize(net, optimizer, options);
  const auto loss = [&] { return mse_loss(net(wave_samples()), targets()); };
  const auto weights_now = [&] { return values(net.first.weight); };
  Result result{.first_loss = loss().item<double>(), .last_loss = 0};
  const auto before = weights_now();
  for (int i = 0; i < course.steps; ++i) {
    optimizer.zero_grad();
    amp::scale_loss(loss() * course.weight, optimizer,
                    [](const Tensor& scaled) { scaled.backward(); });
    if (i == 0) result.flushed = mean((net.first.weight.grad() == 0).to(f32)).item<double>();
    optimizer.step();
  }
  result.last_loss = loss().item<double>();
  result.moved = weights_now() != before;
  return result;
}

}  // namespace

// The paper's section 3.2, first finding: many nets need no loss scaling, because their gradients
// are within the range of f16.
TEST_CASE("Micikevicius 1: a net whose gradients fit f16 trains without loss scaling", "[paper]") {
  const Result f32_run = take({.level = "O0"}), f16_run = take({.level = "O2", .scale = 1.0});
  INFO(f32_run.first_loss << " -> " << f32_run.last_loss << " in f32, " << f16_run.last_loss
                          << " in f16");
  CHECK(f32_run.last_loss < 0.3 * f32_run.first_loss);
  CHECK(f16_run.last_loss == Approx(f32_run.last_loss).epsilon(0.05));
  CHECK(f16_run.flushed == 0);
  // The last bits prove that it ran in f16.
  CHECK(f16_run.last_loss != f32_run.last_loss);
}

// Second finding: the activation gradients of a detector were below 2^-24, f16 flushed them to
// zero, and training failed. Scaling the loss multiplies every gradient by the same power of two,
// and the update divides by it in f32. Here a small weight of the loss makes the gradients small.
TEST_CASE(
    "Micikevicius 2: a net whose gradients are too small for f16 learns nothing, until its loss is "
    "scaled",
    "[paper]") {
  constexpr double kSmall = 0x1p-24;
  const Result f32_run = take({.level = "O0", .weight = kSmall});
  const Result unscaled = take({.level = "O2", .scale = 1.0, .weight = kSmall});
  const Result by_hand = take({.level = "O2", .scale = 0x1p20, .weight = kSmall});
  const Result dynamic = take({.level = "O2", .scale = "dynamic", .weight = kSmall});
  CHECK(f32_run.last_loss < 0.3 * f32_run.first_loss);  // f32 trains
  // The failure: every gradient is zero and no weight changes.
  CHECK(unscaled.flushed == 1);
  CHECK_FALSE(unscaled.moved);
  CHECK(unscaled.last_loss == unscaled.first_loss);
  // The remedy: as good as f32.
  CHECK(by_hand.flushed == 0);
  CHECK(by_hand.last_loss == Approx(f32_run.last_loss).epsilon(0.05));
  CHECK(dynamic.last_loss == Approx(f32_run.last_loss).epsilon(0.1));
  // A scale that is too small helps partly: 2^4 recovers some gradients, not all.
  const Result half_way = take({.level = "O2", .scale = 0x1p4, .weight = kSmall});
  CHECK(half_way.flushed > 0);
  CHECK(half_way.flushed < 1);
  CHECK(half_way.last_loss > 1.05 * f32_run.last_loss);
  CHECK(half_way.last_loss < half_way.first_loss);
}

// The other end of the range: a scale that is too large causes infinities. A static scale steps on
// them and destroys the weights; a dynamic one skips the step, halves the scale and adapts from any
// start.
TEST_CASE(
    "Micikevicius 3: a factor that is too large destroys the weights, a dynamic one backs off",
    "[paper]") {
  const Result destroyed = take({.level = "O2", .scale = 0x1p24});
  CHECK_FALSE(std::isfinite(destroyed.last_loss));
  Pupil net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.2});
  auto session = amp::initialize(net, optimizer, quiet("O2"));
  session.loss_scaler().set_loss_scale(0x1p24);
  const auto loss = [&] { return mse_loss(net(wave_samples()), targets()); };
  int skipped = 0;
  for (int i = 0; i < 150; ++i) {
    optimizer.zero_grad();
    amp::scale_loss(loss(), optimizer, [](const Tensor& scaled) { scaled.backward(); });
    skipped += optimizer.step() == amp::StepResult::skipped;
  }
  CHECK(skipped > 0);
  CHECK(skipped < 20);
  CHECK(session.loss_scaler().loss_scale() == std::ldexp(1.0, 24 - skipped));
  CHECK(loss().item<double>() == Approx(take({.level = "O0"}).last_loss).epsilon(0.2));
}

// The paper's section 3.1: adding an update of 2^-13 to a weight of 1 has no effect in f16, while a
// thousand of them change an f32 master by an eighth. The paper's speech net lost 80 % without
// masters.
TEST_CASE("Micikevicius 4: f16 weights stop moving without an f32 master", "[paper]") {
  const auto train = [](const char* level) {
    // One weight per input, all 1.25; the data come from weights of 1.
    struct Line : nn::Model<Line> {
      Tensor weight = add_parameter("weight", full({1, 4}, 1.25));
      Tensor forward(const Tensor& x) const { return linear(x, weight); }
    } net;
    optim::SGD optimizer(net.parameters(), {.lr = 0x1p-10});
    amp::Options options = quiet(level);
    options.loss_scale = 128.0;
    const auto session = amp::initialize(net, optimizer, options);
    const Tensor x = wave({16, 4}, 0.25), y = sum(x, {1}, {.keepdim = true});
    const auto loss = [&] { return mse_loss(net(x), y); };
    const double first = loss().item<double>();
    for (int i = 0; i < 1500; ++i) {
      optimizer.zero_grad();
      amp::scale_loss(loss(), optimizer, [](const Tensor& scaled) { scaled.backward(); });
      optimizer.step();
    }
    const auto w = values(net.weight);
    return std::pair(loss().item<double>() / first, w == std::vector<double>(4, 1.25));
  };
  const auto [f32_rest, f32_stuck] = train("O0");
  const auto [master_rest, master_stuck] = train("O2");
  const auto [bare_rest, bare_stuck] = train("O3");
  INFO("what is left of the loss: " << f32_rest << " in f32, " << master_rest << " with masters, "
                                    << bare_rest << " without");
  CHECK(f32_rest < 0.01);
  CHECK(master_rest < 0.01);
  CHECK_FALSE(master_stuck);
  // Without masters: no bit has changed in 1500 steps.
  CHECK(bare_stuck);
  CHECK(bare_rest == 1);
  CHECK_FALSE(f32_stuck);
}

// The paper's section 3.3: products may be f16, but not their sum. Adding ones in f16 stops at
// 2048, where 1 is half a unit in the last place.
TEST_CASE("Micikevicius 5: sums of f16 products are kept in f32", "[paper]") {
  const Tensor one = ones({}, {.dtype = f16});
  Tensor naive = zeros({}, {.dtype = f16});
  for (int i = 0; i < 4096; ++i) naive = naive + one;
  CHECK(naive.item<double>() == 2048);
  const Tensor row = ones({1, 4096}, {.dtype = f16});
  CHECK(matmul(row, row.t()).item<double>() == 4096);
  CHECK(sum(row).item<double>() == 4096);
}
