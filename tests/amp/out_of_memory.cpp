// Allocation failures at every point of a training step: each gives a typed error, and the next
// step gives the same bits as without it.
#include "../support/catch.h"
#include "../support/levels.h"
#include "conv_net.h"

using namespace conv_net;

namespace {

/** Training under a session or a GradScaler, with recovery from a failed step. */
class LimitedTraining {
 public:
  explicit LimitedTraining(const char* level, const optimizers::Factory& make)
      : optimizer_(make(net_.parameters())) {
    if (!level) return;
    amp::Options options = nets::quiet(level);
    options.max_consecutive_skips = 0;
    session_.emplace(amp::initialize(net_, *optimizer_, options));
  }

  double step() {
    optimizer_->zero_grad();
    const Tensor loss = forward();
    const double seen = loss.item<double>();
    if (session_) {
      amp::scale_loss(loss, *optimizer_, [](const Tensor& scaled) { scaled.backward(); });
      optimizer_->step();
    } else {
      scaler_.scale(loss).backward();
      scaler_.step(*optimizer_);
      scaler_.update();
    }
    return seen;
  }

  /** Ends the failed iteration, which a GradScaler requires. */
  void recover() {
    optimizer_->zero_grad();
    if (!session_) try {
        scaler_.update();
      } catch (const StateError&) {}
  }

  /** Runs a step with non-finite gradients and returns whether it was skipped. */
  bool skips() {
    optimizer_->zero_grad();
    const Tensor loss = forward() * HUGE_VAL;
    if (session_) {
      amp::scale_loss(loss, *optimizer_, [](const Tensor& scaled) { scaled.backward(); });
      return optimizer_->step() == optim::StepResult::skipped;
    }
    scaler_.scale(loss).backward();
    const optim::StepResult result = scaler_.step(*optimizer_);
    scaler_.update();
    return result == optim::StepResult::skipped;
  }

  std::uint64_t bits() const { return fingerprint::of(*optimizer_); }

 private:
  Tensor forward() {
    std::optional<amp::autocast> on;
    if (!session_) on.emplace();
    const Tensor x = nets::wave({4, 2, 6, 6}, 0.3);
    return cross_entropy(net_(x), tensor({0, 1, 2, 1}, {4}, {.dtype = i64}));
  }

  ConvNet net_;
  optimizers::Made optimizer_;
  std::optional<amp::Session> session_;
  amp::GradScaler scaler_{{.max_consecutive_skips = 0}};
};

/** Runs f with a failing n-th allocation and returns whether it threw. */
template <class F> bool fails_at(std::int64_t n, const F& f) {
  allocator_for(cpu).fail_nth(n);
  bool failed = false;
  try {
    f();
  } catch (const OutOfMemory&) {
    failed = true;
  }
  allocator_for(cpu).fail_nth(0);
  return failed;
}

}  // namespace

namespace {

void check_every_allocation(const char* level, const optimizers::Kind& kind) {
  INFO((level ? level : "GradScaler") << ", " << kind.name);
  LimitedTraining shaken(level, kind.make), calm(level, kind.make);
  int failures = 0, wrong = 0;
  for (std::int64_t n = 1;; ++n) {
    const std::uint64_t before = shaken.bits();
    if (!fails_at(n, [&] { shaken.step(); })) break;
    ++failures;
    wrong += shaken.bits() != before;
    shaken.recover();
    wrong += shaken.step() != calm.step();
  }
  CHECK(failures > 40);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("after an allocation failure anywhere in a step training continues with the same bits",
          "[orders]") {
  for (const char* level : levels::names()) check_every_allocation(level, optimizers::kinds()[2]);
  for (const optimizers::Kind& kind : optimizers::kinds()) {
    check_every_allocation("O2", kind);
    check_every_allocation(nullptr, kind);
  }
}

TEST_CASE("an allocation failure in a step that would be skipped", "[orders]") {
  for (const char* level : {"O1", "O2", static_cast<const char*>(nullptr)}) {
    INFO((level ? level : "GradScaler"));
    LimitedTraining shaken(level, optimizers::kinds()[2].make);
    int failures = 0, wrong = 0, skipped = 0;
    for (std::int64_t n = 1; n <= 200; ++n) {
      const std::uint64_t before = shaken.bits();
      const bool failed = fails_at(n, [&] { skipped += shaken.skips(); });
      failures += failed;
      if (failed) shaken.recover();
      wrong += shaken.bits() != before;
    }
    CHECK(wrong == 0);
    CHECK(failures > 40);
    CHECK(skipped + failures == 200);
  }
}
