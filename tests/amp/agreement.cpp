// Several processes agree on overflows: a flag that another one raises makes both front ends skip.
#include <memory>

#include "../../autograd/gradient_receiver.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "nets.h"

using namespace nets;
using optim::StepResult;

namespace {

/** Plays a second process, which finds an overflow in some steps and has the same loss scale. */
struct OtherProcess final : GradientReceiver {
  bool overflows = false;
  double other_scale = 0;  // of the other process; 0: the same
  int asked = 0;

  explicit OtherProcess(const Tensor& leaf) {
    grad_state(leaf).receiver = this;
    leaf_ = leaf;
  }
  ~OtherProcess() { grad_state(leaf_).receiver = nullptr; }

  void begin_backward(std::span<const std::size_t>) override {}
  bool receive(std::size_t, Tensor&) override { return false; }
  bool has_unreduced(std::size_t) const override { return unreduced; }
  ReceivedGradient received(std::size_t) const override { return {}; }
  void drop_local(std::size_t) override {}
  const std::string& name(std::size_t) const override { return name_; }
  std::optional<bool> found_local_overflow() override { return false; }
  const comm::Communicator& ranks() const override { return alone_; }
  std::vector<double> gather(std::span<const double> mine) override {
    std::vector<double> both(mine.begin(), mine.end());
    both.insert(both.end(), mine.begin(), mine.end());
    ++asked;
    if (overflows) both[9] = both[11] = 1;  // in its own gradients, at a location not known
    if (other_scale != 0) both[7] = other_scale;
    return both;
  }

  bool unreduced = false;

 private:
  Tensor leaf_;
  std::string name_ = "a";
  comm::Communicator alone_;
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
    OtherProcess other(a);
    const auto step = [&](const amp::OptimizerList& optimizers) {
      first.zero_grad();
      second.zero_grad();
      amp::scale_loss(sum(a + b), optimizers, [](const Tensor& loss) { loss.backward(); });
    };
    other.overflows = true;
    step(first);
    CHECK(first.step() == StepResult::skipped);
    CHECK(session.loss_scaler().loss_scale() == (dynamic ? start / 2 : start));
    const amp::ScaleEvent event = session.loss_scaler().events().back();
    CHECK(event.reason == amp::ScaleReason::overflow);
    CHECK(event.first_nonfinite.ends_with(", first on rank 1"));
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

TEST_CASE("GradScaler skips the step if another process has an overflow", "[scaler]") {
  for (const bool fused : {false, true})
    for (const bool unscales : {false, true}) {
      const Tensor a = parameter();
      const std::unique_ptr<optim::Optimizer> optimizer =
          fused ? std::unique_ptr<optim::Optimizer>(std::make_unique<optim::FusedSGD>(
                      std::vector{a}, optim::FusedSgdOptions{.lr = 0.5}))
                : std::make_unique<optim::SGD>(std::vector{a}, optim::SgdOptions{.lr = 0.5});
      amp::GradScaler scaler({.init_scale = 8});
      OtherProcess other(a);
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

TEST_CASE("different loss scales of two processes are an error", "[scaler]") {
  const Tensor a = parameter();
  optim::SGD optimizer({a}, {.lr = 0.5});
  auto session = amp::initialize({}, optimizer, quiet("O1"));
  OtherProcess other(a);
  other.other_scale = 32768;
  const auto scope = [&] {
    amp::scale_loss(sum(a), optimizer, [](const Tensor& loss) { loss.backward(); });
  };
  CHECK_THROWS_WITH_AS_TEXT(scope(), CommError,
                            "the loss scale differs; got 65536 on rank 0 after 0 checks, 32768 on "
                            "rank 1 after 0 checks");
}

TEST_CASE("gradients that were not reduced are neither unscaled nor used", "[scaler]") {
  const Tensor a = parameter();
  optim::SGD optimizer({a}, {.lr = 0.5});
  OtherProcess other(a);
  other.unreduced = true;
  sum(a).backward();
  CHECK_THROWS_WITH_AS_TEXT(optimizer.step(), StateError,
                            "SGD: the gradient of a was not reduced over the processes; "
                            "leave no_sync before the last backward");
  amp::GradScaler scaler;
  scaler.scale(sum(a)).backward();
  CHECK_THROWS_AS(scaler.unscale_(optimizer), StateError);
  optimizer.zero_grad();
  auto session = amp::initialize({}, optimizer, quiet("O1"));
  const auto scope = [&](bool delays) {
    amp::scale_loss(sum(a), optimizer, {.delay_unscale = delays},
                    [](const Tensor& loss) { loss.backward(); });
  };
  CHECK_THROWS_WITH_AS_TEXT(scope(false), StateError, "pass delay_unscale, or leave no_sync");
  scope(true);
  other.unreduced = false;
  scope(false);
  CHECK(optimizer.step() == StepResult::stepped);
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
