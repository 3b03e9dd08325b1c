// Training patterns, each compared with the same pattern in plain f32.
#include <cmath>
#include <functional>

#include "../support/catch.h"
#include "../support/levels.h"
#include "nets.h"

using namespace nets;
using optim::StepResult;
using Results = std::pair<StepResult, StepResult>;

namespace {

/** Returns the tolerance for gradients of this level, relative to the largest one. */
double tolerance(const std::string& level) {
  if (level == "O0") return 1e-5;
  return level == "O4" || level == "O5" ? 6e-2 : 1e-2;
}

/** Returns the gradients that the step uses, concatenated. */
std::vector<double> master_gradients(optim::Optimizer& optimizer) {
  std::vector<double> out;
  for (const Tensor& p : amp::master_params(optimizer)) {
    REQUIRE(p.grad().defined());
    for (const double x : values(p.grad())) out.push_back(x);
  }
  return out;
}

void check_close(const std::vector<double>& got, const std::vector<double>& expected,
                 double relative) {
  REQUIRE(got.size() == expected.size());
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    difference = std::max(difference, std::fabs(got[i] - expected[i]));
  }
  REQUIRE(largest > 0);
  CHECK(difference <= relative * largest);
}

Tensor micro_loss(const Net& net, int index) {
  const Tensor y = net(wave({5, 6}, 0.5 + index));
  return sum(y * y) * 0x1p-9;
}

constexpr int kMicroBatches = 3;

/** Returns the sum over all micro-batches in f32, without mixed precision. */
std::vector<double> plain_sum() {
  const Net net;
  optim::SGD optimizer(net.parameters());
  for (int i = 0; i < kMicroBatches; ++i) micro_loss(net, i).backward();
  return master_gradients(optimizer);
}

}  // namespace

TEST_CASE("accumulation: scopes, delayed unscaling and one scope over the sum agree", "[pattern]") {
  const std::string level = GENERATE(from_range(std::begin(kLevels), std::end(kLevels)));
  INFO(level);
  const auto run = [&](const std::function<void(const Net&, optim::Optimizer&)>& pass) {
    const Net net;
    optim::SGD optimizer(net.parameters());
    const auto session = amp::initialize(net, optimizer, quiet(level.c_str()));
    pass(net, optimizer);
    return master_gradients(optimizer);
  };
  const auto backward = [](const Tensor& scaled) { scaled.backward(); };
  const std::vector<double> expected = plain_sum();
  check_close(run([&](const Net& net, optim::Optimizer& optimizer) {
                for (int i = 0; i < kMicroBatches; ++i)
                  amp::scale_loss(micro_loss(net, i), optimizer, backward);
              }),
              expected, tolerance(level));
  check_close(run([&](const Net& net, optim::Optimizer& optimizer) {
                for (int i = 0; i < kMicroBatches; ++i)
                  amp::scale_loss(micro_loss(net, i), optimizer,
                                  {.delay_unscale = i + 1 < kMicroBatches}, backward);
              }),
              expected, tolerance(level));
  check_close(run([&](const Net& net, optim::Optimizer& optimizer) {
                Tensor total = micro_loss(net, 0);
                for (int i = 1; i < kMicroBatches; ++i) total = total + micro_loss(net, i);
                amp::scale_loss(total, optimizer, backward);
              }),
              expected, tolerance(level));
}

TEST_CASE("accumulation under GradScaler: gradients stay scaled until the end", "[pattern]") {
  const DType dtype = GENERATE(f16, bf16);
  const Net net;
  optim::SGD optimizer(net.parameters());
  amp::GradScaler scaler;
  for (int i = 0; i < kMicroBatches; ++i) {
    const amp::autocast on({.dtype = dtype});
    scaler.scale(micro_loss(net, i)).backward();
  }
  scaler.unscale_(optimizer);
  check_close(master_gradients(optimizer), plain_sum(), tolerance(dtype == f16 ? "O1" : "O4"));
  CHECK(scaler.step(optimizer) == StepResult::stepped);
  scaler.update();
}

// ---- two players --------------------------------------------------------------------------------

namespace {

/** A generator and a discriminator, both affine with one output. */
struct Game {
  Affine generator{2, 1, 0.3}, discriminator{1, 1, 1.1};
  optim::Adam of_generator{generator.parameters(), {.lr = 0.02}};
  optim::Adam of_discriminator{discriminator.parameters(), {.lr = 0.02}};
  Tensor noise = wave({8, 2}, 0.7), real = wave({8, 1}, 2) + 3.0;

  Tensor loss_on_real() const { return mean(softplus(-discriminator(real))); }
  Tensor loss_on_fake() const { return mean(softplus(discriminator(generator(noise).detach()))); }
  Tensor loss_of_generator() const { return mean(softplus(-discriminator(generator(noise)))); }

  /** Runs one round with the generator's loss times `blow_up`; returns both step results. */
  std::pair<StepResult, StepResult> round(double blow_up = 1) {
    const auto backward = [](const Tensor& scaled) { scaled.backward(); };
    of_discriminator.zero_grad();
    amp::scale_loss(loss_on_real(), of_discriminator, {.loss_id = 0}, backward);
    amp::scale_loss(loss_on_fake(), of_discriminator, {.loss_id = 1}, backward);
    const StepResult first = of_discriminator.step();
    of_generator.zero_grad();
    amp::scale_loss(loss_of_generator() * blow_up, of_generator, {.loss_id = 2}, backward);
    return {first, of_generator.step()};
  }
};

}  // namespace

TEST_CASE("GAN: three losses with a scaler each, two optimizers", "[pattern]") {
  const std::string level = GENERATE(from_range(std::begin(kLevels), std::end(kLevels)));
  INFO(level);
  Game plain, game;
  {
    const auto session =
        amp::initialize(std::tie(plain.generator, plain.discriminator),
                        std::tie(plain.of_generator, plain.of_discriminator), {.enabled = false});
    for (int i = 0; i < 60; ++i) plain.round();
  }
  amp::Options options = quiet(level.c_str());
  options.num_losses = 3;
  auto session = amp::initialize(std::tie(game.generator, game.discriminator),
                                 std::tie(game.of_generator, game.of_discriminator), options);
  if (session.loss_scaler().dynamic())  // 2^16 would cost the first rounds
    for (int id = 0; id < 3; ++id) session.loss_scaler(id).set_loss_scale(1024);
  const double start = mean(game.generator(game.noise)).item<double>();
  for (int i = 0; i < 60; ++i)
    CHECK((game.round() == Results(StepResult::stepped, StepResult::stepped)));
  // The generator's backward leaves scaled gradients in the discriminator, whose zero_grad removes
  // them.
  CHECK(game.discriminator.weight.grad().defined());
  const double made = mean(game.generator(game.noise)).item<double>();
  const double expected = mean(plain.generator(plain.noise)).item<double>();
  CHECK(std::fabs(expected - start) > 0.3);
  CHECK(std::fabs(made - expected) < 0.1 * std::fabs(expected - start));

  if (!session.loss_scaler(2).dynamic()) return;
  const double before = session.loss_scaler(2).loss_scale();
  CHECK((game.round(1e38) == Results(StepResult::stepped, StepResult::skipped)));
  CHECK(session.loss_scaler(2).loss_scale() == before / 2);
  CHECK(session.loss_scaler(0).loss_scale() == session.loss_scaler(1).loss_scale());
  CHECK((game.round() == Results(StepResult::stepped, StepResult::stepped)));
}

// ---- gradients of gradients ---------------------------------------------------------------------

namespace {

/** Returns (|dL/dx| - 1)^2 of an unscaled gradient. */
Tensor penalty_of(const Tensor& g) {
  const Tensor length = sqrt(sum(g * g, {1}) + 1e-8);
  return mean((length - 1.0) * (length - 1.0));
}

std::vector<double> plain_penalty() {
  const Net net;
  optim::SGD optimizer(net.parameters());
  const Tensor x = input().requires_grad_();
  const Tensor y = net(x), loss = sum(y * y);
  const Tensor g = grad(loss, x, {.create_graph = true});
  (loss * 0x1p-6 + penalty_of(g)).backward();
  return master_gradients(optimizer);
}

}  // namespace

TEST_CASE(
    "gradient penalty: the gradient of a scaled loss is unscaled out of place and differentiated "
    "again",
    "[pattern]") {
  const std::string level = GENERATE(from_range(std::begin(kLevels), std::end(kLevels)));
  INFO(level);
  const Net net;
  optim::SGD optimizer(net.parameters());
  amp::Options options = quiet(level.c_str());
  options.loss_scale = 64.0;  // at O3 too, to test scaling
  const auto session = amp::initialize(net, optimizer, options);
  const Tensor x = input().requires_grad_();
  const Tensor y = net(x), loss = sum(y * y);
  const Tensor g = grad(loss * 64.0, x, {.create_graph = true}).to(f32) / 64.0;
  amp::scale_loss(loss * 0x1p-6 + penalty_of(g), optimizer,
                  [](const Tensor& scaled) { scaled.backward(); });
  check_close(master_gradients(optimizer), plain_penalty(), 2 * tolerance(level));
  CHECK(optimizer.step() == StepResult::stepped);
}

TEST_CASE("gradient penalty under GradScaler", "[pattern]") {
  const DType dtype = GENERATE(f16, bf16);
  const Net net;
  optim::SGD optimizer(net.parameters());
  amp::GradScaler scaler({.init_scale = 64});
  const Tensor x = input().requires_grad_();
  {
    const amp::autocast on({.dtype = dtype});
    const Tensor y = net(x), loss = sum(y * y);
    const Tensor g = grad(scaler.scale(loss), x, {.create_graph = true}) / scaler.get_scale();
    scaler.scale(loss * 0x1p-6 + penalty_of(g)).backward();
  }
  scaler.unscale_(optimizer);
  check_close(master_gradients(optimizer), plain_penalty(),
              2 * tolerance(dtype == f16 ? "O1" : "O4"));
}

// ---- code around training -----------------------------------------------------------------------

TEST_CASE("imported code runs in f32 inside a disabled region", "[pattern]") {
  const Tensor w = wave({4, 4}, 1);
  const auto imported = [&](const Tensor& x) { return matmul(x, w); };
  const amp::autocast on;
  CHECK(imported(w).dtype() == f16);
  const amp::disable_casts off;
  CHECK(imported(w).dtype() == f32);
}

TEST_CASE("schedules advance only with steps that were not skipped", "[pattern]") {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const auto session = amp::initialize(net, optimizer, quiet("O2"));
  optim::Scheduler schedule(optimizer, optim::StepLR{.step_size = 1, .gamma = 0.5});
  int taken = 0;
  for (const double blow_up : {1.0, 1e38, 1.0})
    if (train_step(net, optimizer, blow_up) == StepResult::stepped) {
      schedule.step();
      ++taken;
    }
  CHECK(taken == 2);
  CHECK(optimizer.lr() == 0.025);
}
