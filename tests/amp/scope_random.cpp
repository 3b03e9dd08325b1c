// Random sequences of scopes, steps and calls in a wrong order, compared with a simple model of a
// session with three losses and two optimizers.
#include <random>

#include "../support/catch.h"
#include "nets.h"

using namespace nets;

namespace {

constexpr int kLossCount = 3, kOptimizerCount = 2;

/** The model of a session. Tracks only whether gradients exist and are finite. */
struct Model {
  struct Loss {
    double scale;
    std::int64_t unskipped = 0;
  };
  struct Owner {
    bool has_gradient = false, skip = false;
    std::optional<std::pair<int, double>> waiting;  // scaled gradients: loss and scale
    bool waiting_infinite = false;
    int skips = 0;
  };
  Model(double start, bool is_dynamic, bool checks) : dynamic(is_dynamic), checks_static(checks) {
    for (Loss& loss : losses) loss.scale = start;
  }

  /** Opens a scope; returns false if it must be refused. */
  bool scope(int id, const bool (&passed)[kOptimizerCount], bool infinite, bool delays) {
    Loss& loss = losses[id];
    bool waits = false;
    for (int k = 0; k < kOptimizerCount; ++k)
      if (passed[k] && owners[k].waiting) {
        if (*owners[k].waiting != std::pair(id, loss.scale)) return false;
        waits = true;
      }
    bool overflow = false;
    for (int k = 0; k < kOptimizerCount; ++k)
      if (passed[k]) {
        owners[k].has_gradient = true;
        owners[k].waiting_infinite = infinite || (owners[k].waiting && owners[k].waiting_infinite);
        overflow = overflow || owners[k].waiting_infinite;
      }
    if (!dynamic && loss.scale == 1 && !checks_static && !waits) return true;
    for (int k = 0; k < kOptimizerCount; ++k)
      if (passed[k]) owners[k].waiting.reset();
    if (delays) {
      for (int k = 0; k < kOptimizerCount; ++k)
        if (passed[k]) owners[k].waiting = {id, loss.scale};
      return true;
    }
    overflow = overflow && (dynamic || checks_static);
    check(loss, passed, overflow);
    return true;
  }

  void check(Loss& loss, const bool (&passed)[kOptimizerCount], bool overflow) {
    if (overflow)
      for (int k = 0; k < kOptimizerCount; ++k) owners[k].skip = owners[k].skip || passed[k];
    if (overflow && dynamic) {
      loss.scale = loss.scale / 2 < 0x1p-126 ? 0x1p-126 : loss.scale / 2;
      loss.unskipped = 0;
    } else if (++loss.unskipped >= 2000 && dynamic) {
      loss.scale = loss.scale * 2 > 0x1p24 ? 0x1p24 : loss.scale * 2;
      loss.unskipped = 0;
    }
  }

  /** Steps and returns the result, or the kind of error. */
  std::string step(Owner& owner, int limit) {
    if (owner.waiting) return "refused";
    if (std::exchange(owner.skip, false)) {
      owner.skips += 1;
      if (owner.skips < limit) return "skipped";
      owner.skips = 0;
      return "diverged";
    }
    if (!owner.has_gradient) return "refused";
    owner.skips = 0;
    return "stepped";
  }

  bool dynamic, checks_static;
  Loss losses[kLossCount];
  Owner owners[kOptimizerCount];
};

/** Returns f's result, or the kind of error it throws. */
template <class F> std::string outcome(const F& f) {
  try {
    return f();
  } catch (const amp::DivergenceError&) {
    return "diverged";
  } catch (const StateError&) {
    return "refused";
  }
}

class Life {
 public:
  static constexpr int kLimit = 4;

  Life(unsigned seed, const char* level, std::optional<double> fixed, bool checks)
      : random_(seed),
        model_(fixed.value_or(65536), !fixed, checks),
        session_(amp::initialize({}, {first_, second_}, options(level, fixed, checks))) {}

  /** Returns how often session and model differed. */
  int live(int steps) {
    for (int i = 0; i < steps; ++i) {
      if (i % 5000 == 0) one_in_ = random_() % 2 ? 3 : 6000;
      const unsigned what = random_() % 16;
      if (what < 8)
        scope();
      else if (what < 13)
        step(random_() % kOptimizerCount);
      else if (what < 15)
        zero_grad(random_() % kOptimizerCount);
      else if (random_() % 50 == 0)
        poke();
      for (int id = 0; id < kLossCount; ++id) {
        const amp::LossScaler& scaler = session_.loss_scaler(id);
        const Model::Loss& loss = model_.losses[id];
        wrong_ += scaler.loss_scale() != loss.scale || scaler.unskipped() != loss.unskipped;
      }
    }
    return wrong_;
  }

 private:
  static amp::Options options(const char* level, std::optional<double> fixed, bool checks) {
    amp::Options o = quiet(level);
    o.loss_scale = fixed ? amp::LossScale(*fixed) : amp::LossScale("dynamic");
    o.num_losses = kLossCount;
    o.check_static_overflow = checks;
    o.max_consecutive_skips = fixed && !checks ? 0 : kLimit;  // steps on infinities
    return o;
  }

  void scope() {
    const int id = static_cast<int>(random_() % kLossCount);
    const unsigned mask = 1 + random_() % 3;
    const bool passed[] = {(mask & 1) != 0, (mask & 2) != 0};
    const bool infinite = random_() % one_in_ == 0, delays = random_() % 8 == 0;
    amp::OptimizerList list;
    Tensor sum_of = zeros({}, {.device = nets::test_device()});
    for (int k = 0; k < kOptimizerCount; ++k)
      if (passed[k]) {
        list.push_back(optimizers_[k]);
        sum_of = sum_of + p_[k];
      }
    const std::string expected = model_.scope(id, passed, infinite, delays) ? "passed" : "refused";
    wrong_ += expected != outcome([&] {
                amp::scale_loss(sum_of * (infinite ? HUGE_VAL : 0x1p-30), list, {id, delays},
                                [](const Tensor& loss) { loss.backward(); });
                return "passed";
              });
  }

  void step(std::size_t k) {
    const std::string expected = model_.step(model_.owners[k], kLimit);
    wrong_ += expected != outcome([&] { return std::string(name(optimizers_[k]->step())); });
    wrong_ += optimizers_[k]->consecutive_skips() != model_.owners[k].skips;
  }

  void zero_grad(std::size_t k) {
    optimizers_[k]->zero_grad();
    model_.owners[k].has_gradient = false;
    model_.owners[k].waiting.reset();
  }

  void poke() {
    const std::size_t id = random_() % kLossCount;
    model_.losses[id].scale = random_() % 2 ? 1 : 1024;
    session_.loss_scaler(static_cast<int>(id)).set_loss_scale(model_.losses[id].scale);
  }

  std::mt19937 random_;
  unsigned one_in_ = 3;
  Model model_;
  static Tensor parameter() { return zeros({}, {.device = nets::test_device()}).requires_grad_(); }

  Tensor p_[kOptimizerCount] = {parameter(), parameter()};
  optim::SGD first_{{p_[0]}}, second_{{p_[1]}};
  optim::Optimizer* optimizers_[kOptimizerCount] = {&first_, &second_};
  amp::Session session_;
  int wrong_ = 0;
};

}  // namespace

TEST_CASE("random scopes and steps match the model of a session", "[scaler]") {
  CHECK(Life(1, "O1", {}, false).live(20000) == 0);
  CHECK(Life(2, "O0", {}, true).live(10000) == 0);
  CHECK(Life(3, "O0", 128, false).live(5000) == 0);
  CHECK(Life(4, "O1", 128, true).live(5000) == 0);
  CHECK(Life(5, "O0", 1, false).live(5000) == 0);
  CHECK(Life(6, "O0", 1, true).live(5000) == 0);
}
