// The event history of scalers, and the gradient that made a step skip.
#include <memory>

#include "../support/catch.h"
#include "nets.h"

using namespace nets;

namespace {

std::vector<std::string> texts(const std::vector<amp::ScaleEvent>& events) {
  std::vector<std::string> out;
  for (const amp::ScaleEvent& event : events) out.push_back(event.text());
  return out;
}

}  // namespace

TEST_CASE("a loss scaler records overflows, growths and set_loss_scale", "[history]") {
  amp::LossScaler scaler(amp::resolve(quiet("O1")));
  CHECK(scaler.events().empty());
  scaler.update(false);
  scaler.update(true, "inf at [0] of w");
  for (int i = 0; i < 2000; ++i) scaler.update(false);
  scaler.set_loss_scale(8);
  scaler.restore(16, 3);
  CHECK(texts(scaler.events()) ==
        std::vector<std::string>{"step 2: 65536 -> 32768 (overflow, inf at [0] of w)",
                                 "step 2002: 32768 -> 65536 (growth)",
                                 "step 2002: 65536 -> 8 (set)", "step 2002: 8 -> 16 (restored)"});
}

TEST_CASE("the history is a ring buffer", "[history]") {
  amp::LossScaler scaler(amp::resolve(quiet("O1")));
  for (int i = 0; i < 1000; ++i) scaler.update(true);
  const auto events = scaler.events();
  REQUIRE(events.size() == amp::LossScaler::kEvents);
  CHECK(events.front().step == 1000 - 255);
  CHECK(events.back().step == 1000);
  CHECK(events.back().old_scale == 0x1p-126);  // an overflow at the floor is recorded too
}

TEST_CASE("a session's event names the gradient that overflowed", "[history]") {
  Net net;
  optim::SGD optimizer(net.parameters());
  auto session = amp::initialize(net, optimizer, quiet("O2"));
  train_step(net, optimizer);
  CHECK_FALSE(amp::first_nonfinite_gradient(optimizer));
  optimizer.zero_grad();
  amp::scale_loss(loss_of(net), optimizer, [&](const Tensor& scaled) {
    scaled.backward();
    net.second.weight.grad().select(0, 1).select(0, 5).fill_(-HUGE_VAL);
  });
  CHECK(optimizer.step() == amp::StepResult::skipped);
  const auto first_nonfinite = amp::first_nonfinite_gradient(optimizer);
  REQUIRE(first_nonfinite);
  CHECK(first_nonfinite->parameter == "second.weight");
  CHECK(first_nonfinite->place == Shape{1, 5});
  CHECK(first_nonfinite->value == -HUGE_VAL);
  CHECK(texts(session.loss_scaler().events()) ==
        std::vector<std::string>{
            "step 2: 65536 -> 32768 (overflow, -inf at [1,5] of second.weight)"});
  optimizer.zero_grad();
  CHECK_FALSE(amp::first_nonfinite_gradient(optimizer));
}

TEST_CASE("a checked static scale records its overflows", "[history]") {
  const Tensor p = zeros({3}).requires_grad_();
  optim::SGD optimizer({p});
  amp::Options options = quiet("O0");
  options.loss_scale = 128;
  options.check_static_overflow = true;
  auto session = amp::initialize({}, optimizer, options);
  amp::scale_loss(sum(p * HUGE_VAL), optimizer, [](const Tensor& loss) { loss.backward(); });
  CHECK(texts(session.loss_scaler().events()) ==
        std::vector<std::string>{"step 1: 128 -> 128 (overflow, inf at [0] of parameter 0)"});
}

TEST_CASE("a GradScaler records overflows, tolerated ones too", "[history]") {
  const Tensor a = zeros({2}).requires_grad_(), b = zeros({2, 2}).requires_grad_();
  optim::SGD optimizer({a, b});
  amp::GradScaler scaler({.growth_interval = 2, .hysteresis = 2});
  const auto iterate = [&](double g) {
    optimizer.zero_grad();
    scaler.scale(sum(a) + sum(b * g)).backward();
    scaler.step(optimizer);
  };
  iterate(HUGE_VAL);
  CHECK(amp::first_nonfinite_gradient(optimizer)->text() == "inf at [0,0] of parameter 1");
  scaler.update();
  iterate(std::nan(""));
  scaler.update();
  for (int i = 0; i < 2; ++i) {
    iterate(1);
    scaler.update();
  }
  iterate(HUGE_VAL);
  scaler.update(4);  // the overflow has no effect and is not recorded later
  iterate(1);
  scaler.update();
  scaler.load_state_dict(scaler.state_dict());
  CHECK(texts(scaler.events()) ==
        std::vector<std::string>{"step 1: 65536 -> 65536 (overflow, inf at [0,0] of parameter 1)",
                                 "step 2: 65536 -> 32768 (overflow, nan at [0,0] of parameter 1)",
                                 "step 4: 32768 -> 65536 (growth)", "step 5: 65536 -> 4 (set)",
                                 "step 6: 4 -> 4 (restored)"});
  CHECK(texts(amp::GradScaler(scaler).events()) == texts(scaler.events()));
}
