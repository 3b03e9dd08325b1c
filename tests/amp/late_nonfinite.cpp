// Events name the gradient that overflowed, also if the host has not looked at the step's result.
#include <cmath>
#include <random>

#include "../support/catch.h"
#include "nets.h"

using namespace nets;

namespace {

std::string latest(const std::vector<amp::ScaleEvent>& events) {
  return events.empty() ? "" : events.back().text();
}

/** Parameters of which some get a non-finite gradient. */
struct Recipients {
  explicit Recipients(Device device) {
    for (const Shape& shape : {Shape{3, 4}, Shape{70}, Shape{2, 3, 7}})
      params.push_back(ones(shape).to(device).requires_grad_());
    params.push_back(
        ones({2, 3, 5, 4}).to(MemoryFormat::channels_last).to(device).requires_grad_());
  }
  std::vector<Tensor> params;

  /** Returns a loss with finite gradients except for single elements of some. */
  Tensor loss(std::mt19937& chance, bool overflows) const {
    Tensor loss = zeros({}, {.device = params[0].device()});
    for (const Tensor& p : params) {
      std::vector<double> factors(static_cast<std::size_t>(p.numel()), 0.5);
      const std::size_t place = chance() % factors.size();
      const double bad[] = {HUGE_VAL, -HUGE_VAL, std::nan("")};
      if (overflows && chance() % 2 == 0) factors[place] = bad[chance() % 3];
      loss = loss + sum(p * tensor(factors, p.shape()).to(p.memory_format()).to(p.device()));
    }
    return loss;
  }
};

/** Returns the events of a GradScaler in 20 steps of two optimizers, of which the first does not
 *  unscale itself. */
std::vector<std::string> with_scaler(Device device, bool looks, unsigned seed) {
  std::mt19937 chance(seed);
  const Recipients first(device), second(device);
  optim::SGD sgd(first.params, {.lr = 0.1});
  optim::FusedAdam adam(second.params, {.lr = 0.1});
  amp::GradScaler scaler({.growth_interval = 3, .max_consecutive_skips = 0});
  std::vector<std::string> texts;
  for (int step = 0; step < 20; ++step) {
    sgd.zero_grad();
    adam.zero_grad();
    const bool overflows[] = {chance() % 4 == 0, chance() % 4 == 0};
    scaler.scale(first.loss(chance, overflows[0]) + second.loss(chance, overflows[1])).backward();
    for (optim::Optimizer* optimizer :
         {static_cast<optim::Optimizer*>(&sgd), static_cast<optim::Optimizer*>(&adam)}) {
      const optim::StepResult result = scaler.step(*optimizer);
      if (looks) (void)result.value();
    }
    scaler.update();
    texts.push_back(latest(scaler.events()));
  }
  return texts;
}

enum class Scopes { one, of_both };

/** Returns the events of a session in the same steps. */
std::vector<std::string> with_session(Device device, bool looks, Scopes scopes, unsigned seed) {
  std::mt19937 chance(seed);
  struct Model : nn::Model<Model> {
    Tensor forward(const Tensor& x) const { return x; }
    void add_all(const Recipients& recipients, const std::string& name) {
      for (std::size_t i = 0; i < recipients.params.size(); ++i)
        add_parameter(name + std::to_string(i), recipients.params[i]);
    }
  } model;
  const Recipients first(device), second(device);
  model.add_all(first, "a");
  model.add_all(second, "b");
  optim::FusedSGD sgd(first.params, {.lr = 0.1});
  optim::FusedAdam adam(second.params, {.lr = 0.1});
  std::vector<optim::Optimizer*> both{&sgd, &adam};
  if (scopes == Scopes::one) both.resize(1);
  amp::Options options = quiet("O1");
  options.max_consecutive_skips = 0;
  auto session = amp::initialize(model, amp::OptimizerList(both), options);
  std::vector<std::string> texts;
  for (int step = 0; step < 20; ++step) {
    for (optim::Optimizer* optimizer : both) optimizer->zero_grad();
    Tensor loss = first.loss(chance, chance() % 4 == 0);
    if (both.size() > 1) loss = loss + second.loss(chance, chance() % 4 == 0);
    amp::scale_loss(loss, amp::OptimizerList(both),
                    [](const Tensor& scaled) { scaled.backward(); });
    for (optim::Optimizer* optimizer : both) {
      const optim::StepResult result = optimizer->step();
      if (looks) (void)result.value();
    }
    texts.push_back(latest(session.loss_scaler().events()));
  }
  return texts;
}

}  // namespace

TEST_CASE("a GradScaler names overflowing gradients, looked at or not", "[late][history]") {
  for (const Device device : devices())
    for (unsigned seed = 1; seed <= 6; ++seed) {
      INFO(str(device) << " seed " << seed);
      CHECK(with_scaler(device, true, seed) == with_scaler(device, false, seed));
    }
}

TEST_CASE("a session names overflowing gradients, looked at or not", "[late][history]") {
  for (const Device device : devices())
    for (const Scopes scopes : {Scopes::one, Scopes::of_both})
      for (unsigned seed = 1; seed <= 4; ++seed) {
        INFO(str(device) << " seed " << seed << " scopes " << static_cast<int>(scopes));
        CHECK(with_session(device, true, scopes, seed) ==
              with_session(device, false, scopes, seed));
      }
}

TEST_CASE("of several unread steps the last overflow is named", "[late][history]") {
  for (const Device device : devices()) {
    const Tensor p = ones({2, 3}, {.device = device}).requires_grad_();
    optim::FusedAdam optimizer({p}, {.lr = 0.1});
    amp::GradScaler scaler({.init_scale = 64});
    const auto step = [&](std::int64_t bad) {
      optimizer.zero_grad();
      const Tensor factor = ones({6}, {.device = device});
      if (bad >= 0) factor.select(0, bad).fill_(HUGE_VAL);
      scaler.scale(sum(p * factor.view({2, 3}))).backward();
      scaler.step(optimizer);
      scaler.update();
    };
    for (const int bad : {-1, 1, -1, 5, -1}) step(bad);
    optimizer.zero_grad();                             // the host has no gradient to inspect
    const std::size_t events = device == cpu ? 2 : 1;  // those of a device are combined
    REQUIRE(scaler.events().size() == events);
    CHECK(scaler.events().back().text() ==
          (device == cpu ? "step 4: 32 -> 16 (overflow, inf at [1,2] of parameter 0)"
                         : "step 5: 64 -> 16 (overflow, inf at [1,2] of parameter 0)"));
    step(-1);
    CHECK(scaler.events().size() == events);
  }
}

TEST_CASE("a gradient that overflows on another device than the loss is named", "[late][history]") {
  const Tensor p = ones({2}, {.device = Device::best()}).requires_grad_(),
               q = ones({2, 3}).requires_grad_();
  optim::SGD optimizer({p, q}, {.lr = 0.1});
  auto session = amp::initialize(nn::Linear{1, 1}, optimizer, quiet("O1"));
  const Tensor factors = ones({6});
  factors.select(0, 5).fill_(HUGE_VAL);
  amp::scale_loss(sum(p) + sum(q * factors.view({2, 3})).to(p.device()), optimizer,
                  [](const Tensor& scaled) { scaled.backward(); });
  CHECK(optimizer.step() == optim::StepResult::skipped);
  CHECK(latest(session.loss_scaler().events()) ==
        "step 1: 65536 -> 32768 (overflow, inf at [1,2] of parameter 1)");
}

TEST_CASE("a scaler of optimizers on two devices names the gradient that overflows",
          "[late][history]") {
  const Tensor p = ones({2}, {.device = Device::best()}).requires_grad_(),
               q = ones({2, 3}).requires_grad_();
  optim::SGD first({p}, {.lr = 0.125}), second({q}, {.lr = 0.125});
  amp::GradScaler scaler({.init_scale = 64});
  for (const bool overflows : {false, true, false}) {
    first.zero_grad();
    second.zero_grad();
    const Tensor factors = ones({6});
    if (overflows) factors.select(0, 5).fill_(HUGE_VAL);
    scaler.scale(sum(p) + sum(q * factors.view({2, 3})).to(p.device())).backward();
    CHECK(scaler.step(first) == optim::StepResult::stepped);
    CHECK(scaler.step(second) ==
          (overflows ? optim::StepResult::skipped : optim::StepResult::stepped));
    CHECK(scaler.found_inf(second) == overflows);
    scaler.update();
    CHECK(latest(scaler.events()) ==
          (scaler.get_scale() == 64 ? ""
                                    : "step 2: 64 -> 32 (overflow, inf at [1,2] of parameter 0)"));
  }
  CHECK(scaler.get_scale() == 32);
  CHECK(scaler.state_dict().at("_growth_tracker") == 1);
  CHECK((p.to(cpu).to_vector<float>()[0] == 0.625f && q.to_vector<float>()[5] == 0.75f));
}
