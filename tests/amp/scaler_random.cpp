// A million random steps of each scaler, compared with a simple model that shares no code with it.
#include <mezzo.h>

#include <random>

#include "../support/catch.h"
#include "../support/device.h"
#include "../support/values.h"
#include "nets.h"

using namespace mezzo;
using nets::kThere;
using testing::kInf;

namespace {

constexpr int kRandomSteps = 20000;
constexpr unsigned kLives = 50;
const unsigned kGradLives = kThere.device == cpu ? kLives : 1;  // an emulated device is slow

class Chance {
 public:
  explicit Chance(unsigned seed) : generator_(seed) {}
  bool one_in(unsigned n) { return generator_() % n == 0; }
  double pick(std::initializer_list<double> values) {
    return values.begin()[generator_() % values.size()];
  }
  /** Phases of 4000 steps with rare, mixed and frequent overflows: reaching a window of 2000 needs
   *  rare ones, reaching the floor frequent ones. */
  bool overflow(int step) {
    if (step % 4000 == 0) weather_ = generator_() % 4;
    static constexpr unsigned kOneIn[] = {3, 40, 1500, 1u << 30};
    return one_in(kOneIn[weather_]);
  }

 private:
  std::mt19937 generator_;
  unsigned weather_ = 0;
};

/** The model of a LossScaler. */
struct LossModel {
  double scale = 65536, min = 0, max = 0x1p24;
  bool dynamic = true;
  std::int64_t unskipped = 0;
  void start() {
    if (scale > max) scale = max;
    if (scale < min) scale = min;
  }
  bool update(bool overflow) {
    if (dynamic && overflow) {
      scale /= 2;
      if (scale < min) scale = min;
      if (scale < 0x1p-126) scale = 0x1p-126;
      unskipped = 0;
      return true;
    }
    unskipped += 1;
    if (dynamic && unskipped >= 2000) {
      scale = 2 * scale < max ? 2 * scale : max;
      unskipped = 0;
    }
    return false;
  }
};

/** The model of a GradScaler, whose scale is kept in f32. */
struct GradModel {
  amp::GradScalerOptions o;
  float scale = static_cast<float>(o.init_scale);
  int tracker = 0, tolerance = o.hysteresis;
  void update(bool found, bool anything) {
    if (found) {
      tracker = 0;
      if (tolerance > 0) tolerance -= 1;
      double lower = static_cast<double>(scale) * o.backoff_factor;
      if (o.min_scale && lower < *o.min_scale) lower = *o.min_scale;
      if (lower < 0x1p-126) lower = 0x1p-126;
      if (tolerance == 0) scale = static_cast<float>(lower);
    } else if (anything) {
      tolerance = o.hysteresis;
      tracker += 1;
      if (tracker < o.growth_interval) return;
      tracker = 0;
      const float higher = static_cast<float>(static_cast<double>(scale) * o.growth_factor);
      if (higher < std::numeric_limits<float>::infinity() &&
          (!o.max_scale || higher <= *o.max_scale))
        scale = higher;
    }
  }
};

/** Compares a loss scaler with its model under the same random options. */
void live_as_loss_scaler(unsigned seed) {
  Chance chance(seed);
  amp::Options options;
  LossModel model;
  if (chance.one_in(2))
    options.min_loss_scale = model.min = chance.pick({0x1p-120, 0.75, 64, 1000, 90000});
  if (chance.one_in(2))
    options.max_loss_scale = model.max = chance.pick({0x1p18, 99999, 0x1p30, 0x1p20});
  if (chance.one_in(6)) {
    options.loss_scale = model.scale = chance.pick({1, 128, 0.3});
    model.dynamic = false;
  } else {
    model.start();
  }
  const amp::Options resolved = amp::resolve(options);
  amp::LossScaler scaler(resolved);
  int wrong = 0;
  for (int i = 0; i < kRandomSteps; ++i) {
    const bool overflow = chance.overflow(i);
    wrong += scaler.update(overflow) != model.update(overflow);
    wrong += scaler.loss_scale() != model.scale || scaler.unskipped() != model.unskipped;
    if (chance.one_in(5000))
      scaler.set_loss_scale(model.scale = chance.pick({0x1p-125, 3, 0x1p16, 1e9}));
    if (chance.one_in(300)) {
      amp::LossScaler restored(resolved);
      if (chance.one_in(4)) model.unskipped += 3000;  // of a longer window
      restored.restore(scaler.loss_scale(), model.unskipped);
      scaler = restored;
    }
  }
  INFO("seed " << seed);
  CHECK(wrong == 0);
}

/** One parameter with a given gradient. */
struct ScaledParameter {
  Tensor p = zeros({}, kThere).requires_grad_(), finite = zeros({}, kThere),
         infinite = full({}, kInf, kThere);
  optim::SGD optimizer{{p}, {.lr = 0}};
  int skips = 0;  // consecutive, by the model
};

amp::GradScalerOptions random_options(Chance& chance) {
  amp::GradScalerOptions o;
  o.init_scale = chance.pick({1, 1024, 65536, 0x1p100, 0x1p-100});
  o.growth_factor = chance.pick({2, 1.5, 16});
  o.backoff_factor = chance.pick({0.5, 0.9, 1.0 / 16});
  o.growth_interval = static_cast<int>(chance.pick({1, 2, 7, 2000}));
  if (chance.one_in(2)) o.min_scale = chance.pick({0x1p-120, 0.1, 100});
  if (chance.one_in(2)) o.max_scale = chance.pick({1000, 0x1p30, 0x1p127});
  o.hysteresis = static_cast<int>(chance.pick({1, 1, 2, 5}));
  o.max_consecutive_skips = static_cast<int>(chance.pick({0, 0, 50, 4}));
  return o;
}

/** A GradScaler with two optimizers, and its model. */
class GradLife {
 public:
  explicit GradLife(unsigned seed)
      : chance_(seed), model_{random_options(chance_)}, scaler_(model_.o) {
    scaler_.scale(ones({}, kThere));
  }

  /** Returns how often scaler and model differed. */
  int live() {
    for (int i = 0; i < kRandomSteps; ++i) {
      iterate(i);
      if (chance_.one_in(500)) meddle();
      const auto same = [&] { return static_cast<float>(scaler_.get_scale()) == model_.scale; };
      wrong_ += !same();
      if (chance_.one_in(16)) wrong_ += !same_state();
    }
    return wrong_;
  }

 private:
  void iterate(int i) {
    bool found = false, anything = false, asked = false;
    for (ScaledParameter& r : recipients_) {
      if (asked && !chance_.one_in(8)) continue;  // mostly a single optimizer
      asked = true;
      const bool overflow = chance_.overflow(i), none = chance_.one_in(50);
      r.p.set_grad(none ? Tensor{} : overflow ? r.infinite : r.finite);
      found = found || (overflow && !none);
      anything = anything || !none;
      const bool steps_at_once = chance_.one_in(4);
      if (!steps_at_once) scaler_.unscale_(r.optimizer);
      if (steps_at_once || chance_.one_in(8)) step(r, overflow, none);
    }
    if (chance_.one_in(1000)) {
      model_.scale = static_cast<float>(chance_.pick({1, 3, 0x1p20}));
      scaler_.update(model_.scale);
    } else {
      scaler_.update();
      model_.update(found, anything);
    }
  }

  void step(ScaledParameter& r, bool overflow, bool none) {
    const amp::StepResult expected = none       ? amp::StepResult::no_grads
                                     : overflow ? amp::StepResult::skipped
                                                : amp::StepResult::stepped;
    if (expected == amp::StepResult::skipped) r.skips += 1;
    if (expected == amp::StepResult::stepped) r.skips = 0;
    const int limit = model_.o.max_consecutive_skips;
    const bool ends = expected == amp::StepResult::skipped && limit > 0 && r.skips == limit;
    if (ends) r.skips = 0;
    try {
      wrong_ += scaler_.step(r.optimizer) != expected || ends;
    } catch (const amp::DivergenceError&) {
      wrong_ += !ends;
    }
    wrong_ += r.optimizer.consecutive_skips() != r.skips;
  }

  /** Changes factors, or continues with a copy or a restored scaler. */
  void meddle() {
    if (chance_.one_in(4)) scaler_.set_growth_factor(model_.o.growth_factor = chance_.pick({2, 3}));
    if (chance_.one_in(4))
      scaler_.set_backoff_factor(model_.o.backoff_factor = chance_.pick({0.5, 0.7}));
    if (chance_.one_in(4))
      scaler_.set_growth_interval(model_.o.growth_interval =
                                      static_cast<int>(chance_.pick({1, 5, 900})));
    if (chance_.one_in(2)) {
      scaler_ = amp::GradScaler(scaler_);
    } else {
      amp::GradScaler restored(model_.o);
      std::map<std::string, double> state = scaler_.state_dict();
      if (chance_.one_in(4)) state["_growth_tracker"] = model_.tracker += 3000;
      restored.load_state_dict(state);
      scaler_ = restored;
      scaler_.scale(ones({}, kThere));
    }
  }

  bool same_state() const {
    std::map<std::string, double> expected{{"scale", model_.scale},
                                           {"growth_factor", model_.o.growth_factor},
                                           {"backoff_factor", model_.o.backoff_factor},
                                           {"growth_interval", model_.o.growth_interval},
                                           {"_growth_tracker", model_.tracker}};
    if (model_.o.hysteresis > 1) expected["hysteresis_tracker"] = model_.tolerance;
    return scaler_.state_dict() == expected;
  }

  Chance chance_;
  GradModel model_;
  amp::GradScaler scaler_;
  ScaledParameter recipients_[2];
  int wrong_ = 0;
};

}  // namespace

TEST_CASE("a million random checks of loss scalers match the model", "[scaler]") {
  for (unsigned seed = 1; seed <= kLives; ++seed) live_as_loss_scaler(seed);
}

TEST_CASE("a million random iterations of GradScalers match the model", "[scaler]") {
  for (unsigned seed = 1; seed <= kGradLives; ++seed) {
    INFO("seed " << seed);
    CHECK(GradLife(seed).live() == 0);
  }
}
