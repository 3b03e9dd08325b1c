// Captured training steps have the same bits as eager steps, at every level and with both scalers.
#include <mezzo.h>

#include <cmath>

#include "../../optim/step/step_state.h"
#include "../emulator/streams.h"
#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"
#include "training.h"

using namespace captured;

namespace {

/** How steps run: eager ones, whose result the host looks at or not, or captured ones. */
enum class Way { looking, eager, captured };

struct Habits {
  std::string level = "O0";
  std::optional<double> max_norm = {};
  bool clips = false;
  double drops = 0;
  bool zeroes_last = false;
};

constexpr int kCapturedSteps = 12;

/** Trains with a session; returns losses, parameters, states and scales. */
std::vector<double> with_session(const Habits& habits, Way way) {
  manual_seed(3);
  Net net;
  net.drops = habits.drops;
  net.to(kDevice);
  optim::FusedAdam optimizer(net.parameters(), {.lr = 0.01});
  auto session = amp::initialize(net, optimizer, {.opt_level = habits.level, .verbosity = 0});
  const auto step = as_steps(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        optimizer.zero_grad();
        const Tensor loss = cross_entropy(net(in[0]), in[1]);
        amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
        if (habits.clips) optim::clip_grad_norm(amp::master_params(optimizer), 0.3);
        const optim::StepResult result = optimizer.step({.max_norm = habits.max_norm});
        if (way == Way::looking) (void)result.value();
        return {loss};
      },
      way == Way::captured);
  std::vector<double> numbers;
  for (int i = 0; i < kCapturedSteps; ++i) {
    add_all(numbers,
            step(batch(8, session.loss_scaler().dynamic() && (i == 4 || i == 7 || i == 8)))[0]);
    if (i == 5) optimizer.set_lr(0.004);
    if (i == 9) {
      CHECK(optimizer.last_result() == optim::StepResult::stepped);
      if (session.loss_scaler().dynamic()) CHECK(session.loss_scaler().loss_scale() < 65536);
      const NoGrad no_grad;
      // A write by the user, which must reach the masters.
      net.first.weight().copy_(net.first.weight() * 0.5);
    }
  }
  for (const Tensor& p : net.parameters()) add_all(numbers, p);
  add_all(numbers, optimizer.state_dict());
  if (session.loss_scaler().dynamic()) numbers.push_back(session.loss_scaler().loss_scale());
  return numbers;
}

/** Trains under autocast with a GradScaler. */
std::vector<double> with_scaler(const Habits& habits, Way way, bool unscales) {
  manual_seed(4);
  Net net;
  net.drops = habits.drops;
  net.to(kDevice);
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  amp::GradScaler scaler({.growth_interval = 3});
  const auto step = as_steps(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        Tensor loss;
        {
          const amp::autocast on({.dtype = f16});
          loss = cross_entropy(net(in[0]), in[1]);
        }
        scaler.scale(loss).backward();
        if (unscales) scaler.unscale_(optimizer);
        if (habits.clips) optim::clip_grad_norm(net.parameters(), 0.3);
        const optim::StepResult result = scaler.step(optimizer, {.max_norm = habits.max_norm});
        if (way == Way::looking) (void)result.value();
        scaler.update();
        optimizer.zero_grad();
        return {loss};
      },
      way == Way::captured);
  std::vector<double> numbers;
  for (int i = 0; i < kCapturedSteps; ++i) {
    add_all(numbers, step(batch(8, i == 2 || i == 6))[0]);
    if (i == 4) scaler.update(4096);
    if (i == 8) numbers.push_back(scaler.get_scale());
  }
  for (const Tensor& p : net.parameters()) add_all(numbers, p);
  add_all(numbers, optimizer.state_dict());
  for (const auto& [name, value] : scaler.state_dict()) numbers.push_back(value);
  return numbers;
}

}  // namespace

TEST_CASE("captured steps of a session have the bits of eager steps", "[gpu][graph]") {
  NEED_DEVICE();
  const std::string level = GENERATE(from_range(levels::names()));
  for (const Habits& habits :
       {Habits{.level = level}, Habits{.level = level, .max_norm = 0.4, .drops = 0.3},
        Habits{.level = level, .clips = true}}) {
    INFO(level);
    const std::vector<double> host = with_session(habits, Way::looking);
    CHECK(same(with_session(habits, Way::eager), host));
    CHECK(same(with_session(habits, Way::captured), host));
  }
}

TEST_CASE("captured steps with a GradScaler have the bits of eager steps", "[gpu][graph]") {
  NEED_DEVICE();
  for (const Habits& habits :
       {Habits{}, Habits{.max_norm = 0.4, .drops = 0.3}, Habits{.clips = true, .drops = 0.5}})
    for (const bool unscales : {false, true}) {
      const std::vector<double> host = with_scaler(habits, Way::looking, unscales);
      CHECK(same(with_scaler(habits, Way::eager, unscales), host));
      CHECK(same(with_scaler(habits, Way::captured, unscales), host));
    }
}

namespace {

/** Trains at a level without zero_grad, with a static scale. */
std::vector<double> without_zero_grad(const std::string& level, bool is_captured) {
  manual_seed(5);
  Net net;
  net.to(kDevice);
  optim::FusedAdam optimizer(net.parameters(), {.lr = 0.01});
  const auto session =
      amp::initialize(net, optimizer, {.opt_level = level, .loss_scale = 64.0, .verbosity = 0});
  const auto step = as_steps(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        const Tensor loss = cross_entropy(net(in[0]), in[1]);
        amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
        optimizer.step();
        return {loss};
      },
      is_captured);
  std::vector<double> numbers;
  for (int i = 0; i < 8; ++i) add_all(numbers, step(batch(8, false))[0]);
  for (const Tensor& p : net.parameters()) add_all(numbers, p);
  return numbers;
}

}  // namespace

TEST_CASE("captured steps without zero_grad accumulate gradients as eager steps do",
          "[gpu][graph]") {
  NEED_DEVICE();
  for (const char* level : levels::names()) {
    INFO(level);
    CHECK(same(without_zero_grad(level, true), without_zero_grad(level, false)));
  }
}

TEST_CASE("a captured step under GradScaler needs zero_grad", "[gpu][graph]") {
  NEED_DEVICE();
  Net net;
  net.to(kDevice);
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  amp::GradScaler scaler({.init_scale = 64});
  const auto step = as_steps(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        const Tensor loss = cross_entropy(net(in[0]), in[1]);
        scaler.scale(loss).backward();
        scaler.step(optimizer);
        scaler.update();
        return {loss};
      },
      true);
  const auto run = [&] {
    for (int i = 0; i < 4; ++i) (void)step(batch(8, false));
  };
  CHECK_THROWS_WITH_AS_TEXT(run(), StateError, "call zero_grad() inside the captured step");
}

namespace {

/** Trains with one or more scopes per iteration, whose scales differ. */
std::vector<double> with_scopes(const std::string& level, int scopes, Way way) {
  manual_seed(7);
  Net net;
  net.to(kDevice);
  optim::FusedSGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01});
  auto session =
      amp::initialize(net, optimizer, {.opt_level = level, .num_losses = 2, .verbosity = 0});
  session.loss_scaler(0).set_loss_scale(3000);
  session.loss_scaler(1).set_loss_scale(700);
  const auto step = as_steps(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        optimizer.zero_grad();
        Tensor loss;
        for (int i = 0; i < scopes; ++i) {
          loss = cross_entropy(net(in[0] * (1.0 + i)), in[1]);
          amp::scale_loss(loss, optimizer, {.loss_id = i % 2},
                          [](const Tensor& scaled) { scaled.backward(); });
        }
        const optim::StepResult result = optimizer.step({.max_norm = 5});
        if (way == Way::looking) (void)result.value();
        return {loss};
      },
      way == Way::captured);
  std::vector<double> numbers;
  for (int i = 0; i < kCapturedSteps; ++i) {
    const std::vector<Tensor> in = batch(8, i == 4 || i == 7 || i == 8);
    add_all(numbers, step(in)[0]);
  }
  for (const Tensor& p : net.parameters()) add_all(numbers, p);
  add_all(numbers, optimizer.state_dict());
  for (const int i : {0, 1}) numbers.push_back(session.loss_scaler(i).loss_scale());
  return numbers;
}

}  // namespace

TEST_CASE("steps with several scopes can be captured", "[gpu][graph]") {
  NEED_DEVICE();
  for (const int scopes : {1, 3}) {
    INFO(scopes);
    const std::vector<double> host = with_scopes("O2", scopes, Way::looking);
    CHECK(same(with_scopes("O2", scopes, Way::eager), host));
    CHECK(same(with_scopes("O2", scopes, Way::captured), host));
  }
}

namespace {

/** Trains, and returns the gradients after each step, or only after each third one. */
std::vector<double> gradients_of(const std::string& level, Way way, bool every, bool by_address) {
  manual_seed(9);
  Net net;
  net.to(kDevice);
  optim::FusedAdam optimizer(net.parameters(), {.lr = 0.01});
  auto session = amp::initialize(net, optimizer, {.opt_level = level, .verbosity = 0});
  const auto step = as_steps(training_step(net, optimizer), way == Way::captured);
  std::vector<double> numbers;
  for (int i = 0; i < kCapturedSteps; ++i) {
    if (i == 9 && session.loss_scaler().dynamic()) session.loss_scaler().set_loss_scale(512);
    add_all(numbers, step(batch(8, session.loss_scaler().dynamic() && (i == 4 || i == 7)))[0]);
    for (const Tensor& p : optimizer.params()) {
      if (by_address && i == 3) (void)p.grad().data<float>();
      // Later steps write the memory whose address the program has.
      if (by_address && i > 3 && way == Way::captured)
        CHECK(!p.grad().impl()->storage->late_write());
      if (every || i % 3 == 2) add_all(numbers, p.grad());
    }
  }
  for (const Tensor& p : net.parameters()) add_all(numbers, p);
  return numbers;
}

}  // namespace

TEST_CASE("gradients of captured steps can be read after each replay", "[gpu][graph]") {
  NEED_DEVICE();
  for (const char* level : {"O1", "O2", "O5"})
    for (const bool every : {false, true}) {
      INFO(level << ", every " << every);
      const std::vector<double> eager = gradients_of(level, Way::eager, every, false);
      CHECK(same(gradients_of(level, Way::captured, every, false), eager));
      CHECK(same(gradients_of(level, Way::captured, every, true), eager));
    }
}

namespace {

/** Returns the last loss scale event after each step. */
std::vector<std::string> events_of(Way way) {
  manual_seed(8);
  Net net;
  net.to(kDevice);
  optim::FusedAdam optimizer(net.parameters(), {.lr = 0.01});
  auto session = amp::initialize(net, optimizer, {.opt_level = "O2", .verbosity = 0});
  const auto step = as_steps(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        optimizer.zero_grad();
        const Tensor loss = sum(net(in[0]) * in[1]);
        amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
        const optim::StepResult result = optimizer.step();
        if (way == Way::looking) (void)result.value();
        return {};
      },
      way == Way::captured);
  std::vector<std::string> texts;
  for (int i = 0; i < kCapturedSteps; ++i) {
    const Tensor factors = ones({8, 4});
    if (i % 3 == 2) factors.select(1, i % 4).fill_(i % 2 == 0 ? HUGE_VAL : -HUGE_VAL);
    step({batch(8, false)[0], factors.to(kDevice)});
    const auto events = session.loss_scaler().events();
    texts.push_back(events.empty() ? "" : events.back().text());
  }
  return texts;
}

}  // namespace

TEST_CASE("captured steps report the gradient that overflowed", "[gpu][graph]") {
  NEED_DEVICE();
  const std::vector<std::string> host = events_of(Way::looking);
  CHECK(host.back().find(" of first.weight)") != std::string::npos);
  CHECK(events_of(Way::eager) == host);
  CHECK(events_of(Way::captured) == host);
}

TEST_CASE("steps are captured per shape and continue from each other's state", "[gpu][graph]") {
  NEED_DEVICE();
  const auto train = [](bool capture, std::size_t* captures) {
    manual_seed(5);
    Net net;
    net.drops = 0.2;
    net.to(kDevice);
    optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9, .dampening = 0.1});
    gpu::CapturedStep::Function function =
        [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      optimizer.zero_grad();
      const Tensor loss = cross_entropy(net(in[0]), in[1]);
      loss.backward();
      optimizer.step();
      return {loss, net.first.weight().grad()};
    };
    gpu::CapturedStep step(function, {kDevice});
    std::vector<double> numbers;
    for (const std::int64_t n : {8, 8, 5, 8, 5, 5, 3, 8, 5}) {
      const std::vector<Tensor> results =
          capture ? step(batch(n, false)) : function(batch(n, false));
      for (const Tensor& x : results) add_all(numbers, x);
    }
    for (const Tensor& p : net.parameters()) add_all(numbers, p);
    add_all(numbers, optimizer.state_dict());
    if (captures) *captures = step.captures();
    return numbers;
  };
  std::size_t captures = 0;
  CHECK(same(train(true, &captures), train(false, nullptr)));
  CHECK(captures == 2);
}

TEST_CASE("captured steps at a level that skips none report a lost gradient within 100 steps",
          "[gpu][graph]") {
  NEED_DEVICE();
  const std::string level = GENERATE("O0", "O4", "O5");
  Net net;
  net.to(kDevice);
  optim::FusedAdam optimizer(net.parameters(), {.lr = 0.01});
  auto session = amp::initialize(net, optimizer, {.opt_level = level, .verbosity = 0});
  const auto step = as_steps(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        optimizer.zero_grad();
        const Tensor loss = cross_entropy(net(in[0]), in[1]);
        amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
        optimizer.step();
        return {loss};
      },
      true);
  int at = 0;
  std::string text;
  for (int i = 1; i <= 160 && at == 0; ++i) {
    std::vector<Tensor> in = batch(8, false);
    if (i == 20) in[0] = in[0] * std::nan("");
    try {
      step(in);
    } catch (const amp::DivergenceError& e) {
      at = i;
      text = e.what();
    }
  }
  INFO(level << " " << at << " " << text);
  CHECK((at > 50 && at <= 101));
  CHECK(text.find("gradients of step 50 are not finite") != std::string::npos);
  CHECK(text.find("first.weight") != std::string::npos);
}

TEST_CASE("divergence of captured steps is reported within 100 steps", "[gpu][graph]") {
  NEED_DEVICE();
  Net net;
  net.to(kDevice);
  optim::FusedAdam optimizer(net.parameters(), {.lr = 0.01});
  amp::GradScaler scaler({.max_consecutive_skips = 10});
  gpu::CapturedStep step(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        optimizer.zero_grad();
        scaler.scale(cross_entropy(net(in[0]), in[1])).backward();
        scaler.step(optimizer);
        scaler.update();
        return {};
      },
      {kDevice});
  const std::vector<Tensor> good = batch(4, false),
                            bad{full({4, 6}, NAN, {.device = kDevice}), good[1]};
  step(good);
  step(good);
  int steps = 0;
  const auto go_on = [&] {
    const emulator::LateWork late;
    for (; steps < 300; ++steps) step(bad);
  };
  CHECK_THROWS_AS(go_on(), amp::DivergenceError);
  CHECK(steps < 10 + 2 * optim::StepState::kPollSteps);
  step(good);
  CHECK(optimizer.last_result() == optim::StepResult::stepped);
}

TEST_CASE("a captured step casts the outputs of a model that are read after it", "[gpu][graph]") {
  NEED_DEVICE();
  const std::string level = GENERATE("O2", "O5");
  manual_seed(7);
  Net net;
  net.to(kDevice);
  const auto session = amp::initialize(net, {.opt_level = level, .verbosity = 0});
  std::vector<Tensor> held;
  const auto run = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    const Tensor y = net(in[0]), other = net(in[0] * 2.0);
    held = {other};
    return {cross_entropy(y, in[1]), y, cross_entropy(other, in[1]), y.slice(1, 1, 3)};
  };
  gpu::CapturedStep step(run, {kDevice});
  for (int i = 0; i < 4; ++i) {
    const std::vector<Tensor> in = batch(8, false), got = step(in);
    const std::vector<Tensor> expected = run(in);
    INFO(level << " " << i);
    for (std::size_t k = 0; k < got.size(); ++k)
      CHECK(got[k].to_vector<double>() == expected[k].to_vector<double>());
    step(in);
    CHECK(held[0].to_vector<double>() == net(in[0] * 2.0).to_vector<double>());
    (void)run(in);
  }
  CHECK(step.captures() == 1);
}

TEST_CASE("an output that was never read is read before a capture, not in it", "[gpu][graph]") {
  NEED_DEVICE();
  manual_seed(8);
  Net net;
  net.to(kDevice);
  const auto session = amp::initialize(net, {.opt_level = "O2", .verbosity = 0});
  const std::vector<Tensor> in = batch(8, false);
  const Tensor y = net(in[0]);
  Tensor twice, loss;
  const auto step = [&] {
    loss = cross_entropy(y, in[1]);
    twice = y * 2.0;
  };
  gpu::Graph graph;
  CHECK_THROWS_WITH_AS_TEXT(graph.capture(kDevice, step), StateError,
                            "a 16-bit result is first read as f32");
  step();
  const std::vector<double> expected = twice.to_vector<double>();
  graph.capture(kDevice, step);
  graph.replay();
  CHECK(twice.to_vector<double>() == expected);
  CHECK(y.to_vector<double>()[0] * 2 == expected[0]);
  CHECK(std::isfinite(loss.item<double>()));
}
