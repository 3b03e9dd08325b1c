// Several processes agree on overflows: an agreement that raises a flag makes both front ends skip.
#include <memory>

#include "../support/catch.h"
#include "nets.h"

using namespace nets;
using optim::StepResult;

namespace {

/** Plays another process, which finds an overflow in some steps. */
struct OtherProcess {
  bool overflows = false;
  int asked = 0;

  amp::LossScaler::Agreement agreement() {
    return [this](const optim::FoundInf& found) {
      ++asked;
      if (overflows) found.flag.fill_(1);
    };
  }
};

Tensor parameter() { return ones({3}, {.device = test_device()}).requires_grad_(); }

std::vector<double> numbers_of(const Tensor& x) { return x.to(cpu).to_vector<double>(); }

}  // namespace

TEST_CASE("scale_loss skips the step if another process has an overflow", "[scaler]") {
  for (const bool dynamic : {true, false}) {
    const Tensor a = parameter(), b = parameter();
    optim::SGD first({a}, {.lr = 0.5}), second({b}, {.lr = 0.5});
    amp::Options options = quiet("O1");
    options.check_static_overflow = true;
    if (!dynamic) options.loss_scale = 128.0;
    auto session = amp::initialize({}, {first, second}, options);
    const double start = session.loss_scaler().loss_scale();
    OtherProcess other;
    session.loss_scaler().set_agreement(other.agreement());
    const auto step = [&](const amp::OptimizerList& optimizers) {
      first.zero_grad();
      second.zero_grad();
      amp::scale_loss(sum(a + b), optimizers, [](const Tensor& loss) { loss.backward(); });
    };
    other.overflows = true;
    step(first);
    CHECK(first.step() == StepResult::skipped);
    CHECK(session.loss_scaler().loss_scale() == (dynamic ? start / 2 : start));
    CHECK(session.loss_scaler().events().back().reason == amp::ScaleReason::overflow);
    step({first, second});
    CHECK(first.step() == StepResult::skipped);
    CHECK(second.step() == StepResult::skipped);
    other.overflows = false;
    step({first, second});
    CHECK(first.step() == StepResult::stepped);
    CHECK(second.step() == StepResult::stepped);
    CHECK(other.asked == 3);
    CHECK(numbers_of(a) == std::vector{0.5, 0.5, 0.5});
  }
}

TEST_CASE("an overflow whose check is delayed is agreed on at that check", "[scaler]") {
  const Tensor a = parameter();
  optim::SGD optimizer({a}, {.lr = 0.5});
  auto session = amp::initialize({}, optimizer, quiet("O1"));
  OtherProcess other;
  session.loss_scaler().set_agreement(other.agreement());
  const auto scope = [&](double factor, bool delays) {
    amp::scale_loss(sum(a * factor), optimizer, {.delay_overflow_check = delays},
                    [](const Tensor& loss) { loss.backward(); });
  };
  scope(HUGE_VAL, true);
  CHECK(other.asked == 0);
  scope(1, false);
  CHECK(other.asked == 2);  // on the flags of both scopes
  CHECK(optimizer.step() == StepResult::skipped);
}

TEST_CASE("GradScaler skips the step if another process has an overflow", "[scaler]") {
  for (const bool fused : {false, true})
    for (const bool unscales : {false, true}) {
      const Tensor a = parameter();
      const std::unique_ptr<optim::Optimizer> optimizer =
          fused ? std::unique_ptr<optim::Optimizer>(std::make_unique<optim::FusedSGD>(
                      std::vector{a}, optim::FusedSgdOptions{.lr = 0.5}))
                : std::make_unique<optim::SGD>(std::vector{a}, optim::SgdOptions{.lr = 0.5});
      amp::GradScaler scaler({.init_scale = 8});
      OtherProcess other;
      scaler.set_agreement(other.agreement());
      const auto step = [&] {
        optimizer->zero_grad();
        scaler.scale(sum(a)).backward();
        if (unscales) scaler.unscale_(*optimizer);
        const StepResult result = scaler.step(*optimizer);
        scaler.update();
        return result;
      };
      other.overflows = true;
      CHECK(step() == StepResult::skipped);
      CHECK(scaler.get_scale() == 4);
      other.overflows = false;
      CHECK(step() == StepResult::stepped);
      CHECK(scaler.get_scale() == 4);
      CHECK(other.asked == 2);
      CHECK(numbers_of(a) == std::vector{0.5, 0.5, 0.5});
    }
}

TEST_CASE("nested scopes of one loss use the scale of their own entry", "[scaler]") {
  const Tensor a = parameter(), b = parameter();
  optim::SGD outer({a}, {.lr = 1}), inner({b}, {.lr = 1});
  auto session = amp::initialize({}, {outer, inner}, quiet("O1"));
  session.loss_scaler().set_loss_scale(1024);
  for (int i = 0; i < 2; ++i) {
    outer.zero_grad();
    inner.zero_grad();
    amp::scale_loss(sum(a * 2), outer, [&](const Tensor& loss) {
      amp::scale_loss(sum(b * HUGE_VAL), inner, [](const Tensor& other) { other.backward(); });
      CHECK(session.loss_scaler().loss_scale() == 512 / (1 << i));
      loss.backward();
    });
    CHECK(numbers_of(a.grad()) == std::vector{2.0, 2.0, 2.0});
    CHECK(inner.step() == StepResult::skipped);
    CHECK(outer.step() == StepResult::stepped);
  }
}
