// Memory that runs out at every single place of a training step: a typed error each time, and the next step as if nothing had been.
#include "../support/catch.h"
#include "conv_net.h"

using namespace conv_net;

namespace {

/** A step of either surface, and what a program does when one failed. */
class Training {
 public:
  explicit Training(const char* level, const optimizers::Factory& make)
      : optimizer_(make(net_.parameters())) {
    if (!level) return;
    amp::Options options = nets::quiet(level);
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

  /** A GradScaler wants to hear that the iteration is over. */
  void recover() {
    optimizer_->zero_grad();
    if (!session_) try {
        scaler_.update();
      } catch (const StateError&) {}
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
  amp::GradScaler scaler_;
};

/** One step in which the n-th allocation fails; false when there are fewer, and the step was taken. */
bool fails_at(Training& training, std::int64_t n) {
  allocator_for(cpu).fail_nth(n);
  bool failed = false;
  try {
    training.step();
  } catch (const OutOfMemory&) {
    failed = true;
  }
  allocator_for(cpu).fail_nth(0);
  return failed;
}

}  // namespace

TEST_CASE("memory may run out anywhere in a step, and training goes on to the same bits", "[orders]") {
  const optimizers::Factory& make = optimizers::kinds()[2].make;
  for (const char* level : {"O0", "O1", "O2", "O3", "O4", "O5", static_cast<const char*>(nullptr)}) {
    INFO((level ? level : "GradScaler"));
    Training shaken(level, make), calm(level, make);
    int failures = 0, wrong = 0;
    for (std::int64_t n = 1;; ++n) {
      const std::uint64_t before = shaken.bits();
      if (!fails_at(shaken, n)) break;
      ++failures;
      wrong += shaken.bits() != before;
      shaken.recover();
      wrong += shaken.step() != calm.step();
    }
    CHECK(failures > 50);
    CHECK(wrong == 0);
  }
}
