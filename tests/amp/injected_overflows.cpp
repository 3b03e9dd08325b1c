// More than ten thousand injected overflows: in the loss, in activations, in gradients, in casts;
// at every level that skips steps. Each must skip exactly one step, halve the scale, and leave the
// trained values unchanged.
#include <random>

#include "../support/catch.h"
#include "../support/optimizers.h"
#include "fingerprint.h"
#include "nets.h"

using namespace nets;

namespace {

enum class Site {
  none,
  loss_inf,
  loss_nan,
  loss_too_large,
  activation,
  activation_gradient,
  weight_gradient,
  cast
};
constexpr Site kSites[] = {Site::loss_inf,
                           Site::loss_nan,
                           Site::loss_too_large,
                           Site::activation,
                           Site::activation_gradient,
                           Site::weight_gradient,
                           Site::cast};

/** A setup in which overflows skip steps. */
struct Regime {
  std::string name;
  const char* level;              // of a session; null: GradScaler
  std::optional<double> scale;    // static, with check_static_overflow; none: dynamic
  std::optional<DType> autocast;  // of the guard that goes with GradScaler
  bool has_casts;                 // some op casts its inputs, which can overflow
};

/** Returns each level with a dynamic scale, and other setups. */
std::vector<Regime> regimes() {
  std::vector<Regime> all;
  for (const amp::Level& level : amp::kLevels)
    all.push_back({.name = str(level.name, " dynamic"),
                   .level = level.name.data(),
                   .scale = {},
                   .autocast = {},
                   .has_casts = level.low || is_low(level.cast_model_type.value_or(f32))});
  all.push_back({"O2 static", "O2", 1024.0, {}, true});
  all.push_back({"O3 static", "O3", 128.0, {}, true});
  all.push_back({"GradScaler", nullptr, {}, {}, false});
  all.push_back({"GradScaler and autocast", nullptr, {}, f16, true});
  return all;
}

const char* const kLosses[] = {"mse", "cross entropy", "smooth l1"};

/** Two layers, with sites to inject overflows. */
struct Fragile : nn::Model<Fragile> {
  Fragile() {
    for (const Tensor& p : {first.weight, second.bias})
      register_hook(p, [site = site](const Tensor& g) {
        return *site == Site::weight_gradient ? g * HUGE_VAL : Tensor{};
      });
  }
  Tensor forward(const Tensor& x) const {
    Tensor h = tanh(first(x));
    if (*site == Site::activation) h = h * 1e38 * 1e38;
    if (*site == Site::activation_gradient)
      register_hook(h, [](const Tensor& g) { return full_like(g, std::nan("")); });
    return second(h);
  }
  Affine first = add("first", Affine(4, 6, 0));
  Affine second = add("second", Affine(6, 3, 2));
  std::shared_ptr<Site> site = std::make_shared<Site>(Site::none);
};

/** A net in training under a regime. */
class Trainee {
 public:
  Trainee(const Regime& regime, const optimizers::Kind& kind, const std::string& loss)
      : regime_(regime), loss_(loss), optimizer_(kind.make(net_.parameters())) {
    if (!regime.level) return;
    amp::Options options = quiet(regime.level);
    options.loss_scale = regime.scale ? amp::LossScale(*regime.scale) : amp::LossScale("dynamic");
    options.check_static_overflow = regime.scale.has_value();
    session_.emplace(amp::initialize(net_, *optimizer_, options));
  }

  /** One step of `micro_batches`, with an overflow at `site` in the first one. */
  optim::StepResult step(Site site, int micro_batches) {
    optimizer_->zero_grad();
    for (int i = 0; i < micro_batches; ++i) {
      *net_.site = i == 0 ? site : Site::none;
      if (session_)
        amp::scale_loss(loss(*net_.site) / micro_batches, *optimizer_,
                        {.delay_unscale = i + 1 < micro_batches},
                        [](const Tensor& scaled) { scaled.backward(); });
      else
        scaler_.scale(loss(*net_.site) / micro_batches).backward();
    }
    *net_.site = Site::none;
    if (session_) return optimizer_->step();
    const optim::StepResult result = scaler_.step(*optimizer_);
    scaler_.update();
    return result;
  }

  double scale() { return session_ ? session_->loss_scaler().loss_scale() : scaler_.get_scale(); }
  /** Restores a high scale for f16 gradients: the test is too short for a growth window. */
  void raise_scale() {
    if (session_)
      session_->loss_scaler().set_loss_scale(65536);
    else
      scaler_.update(65536);
  }
  std::uint64_t bits() const { return fingerprint::of(*optimizer_); }
  double present_loss() { return loss(Site::none).item<double>(); }

 private:
  Tensor loss(Site site) {
    std::optional<amp::autocast> on;
    if (regime_.autocast) on.emplace(amp::AutocastOptions{.dtype = *regime_.autocast});
    static const Tensor x = wave({8, 4}, 0.5), target = wave({8, 3}, 4) * 0.5,
                        classes = argmax(target, {.dim = 1});
    Tensor input = x;
    if (site == Site::cast) {  // representable in f32 and in no 16-bit type
      input = x.clone();
      input.select(0, 3).fill_(3.4e38);
    }
    const Tensor y = net_(input);
    const Tensor plain = loss_ == "mse"         ? mse_loss(y, target)
                         : loss_ == "smooth l1" ? smooth_l1_loss(y, target)
                                                : cross_entropy(y, classes);
    if (site == Site::loss_inf) return plain * HUGE_VAL;
    if (site == Site::loss_nan) return plain * std::nan("");
    if (site == Site::loss_too_large) return plain * 1e38;  // finite as a loss, but not when scaled
    return plain;
  }

  Regime regime_;
  std::string loss_;
  Fragile net_;
  optimizers::Made optimizer_;
  std::optional<amp::Session> session_;
  amp::GradScaler scaler_;
};

constexpr int kGoodSteps = 60, kOverflows = 90;

/** Trains without overflows and returns the loss at the end. */
double undisturbed_loss(const Regime& regime, const optimizers::Kind& kind, const char* loss) {
  Trainee trainee(regime, kind, loss);
  for (int i = 0; i < kGoodSteps; ++i)
    REQUIRE(trainee.step(Site::none, 1) == optim::StepResult::stepped);
  return trainee.present_loss();
}

/** Trains through kOverflows overflows and returns the number of wrong outcomes. */
int disturbed_training(Trainee& trainee, const Regime& regime, unsigned seed) {
  std::mt19937 random(seed);
  int wrong = 0, overflows = 0;
  for (int good = 0; good < kGoodSteps || overflows < kOverflows;) {
    if (overflows == kOverflows || (good < kGoodSteps && random() % 5 < 2)) {
      const std::uint64_t before = trainee.bits();
      const double scale = trainee.scale();
      wrong += trainee.step(Site::none, 1 + static_cast<int>(random() % 2)) !=
               optim::StepResult::stepped;
      wrong += trainee.bits() == before || trainee.scale() != scale;
      ++good;
      continue;
    }
    Site site = kSites[random() % std::size(kSites)];
    if (site == Site::cast && !regime.has_casts) site = Site::loss_inf;
    if (trainee.scale() < 256 && !regime.scale) trainee.raise_scale();
    const std::uint64_t before = trainee.bits();
    const double scale = trainee.scale();
    const bool skipped =
        trainee.step(site, 1 + static_cast<int>(random() % 2)) == optim::StepResult::skipped;
    const bool unchanged = trainee.bits() == before;
    const bool halved = trainee.scale() == (regime.scale ? scale : scale / 2);
    if (!skipped || !unchanged || !halved)
      UNSCOPED_INFO("site " << static_cast<int>(site) << ": " << skipped << unchanged << halved);
    wrong += !skipped || !unchanged || !halved;
    ++overflows;
  }
  return wrong;
}

}  // namespace

TEST_CASE("ten thousand injected overflows skip one step each and change nothing else",
          "[overflow]") {
  int total = 0;
  unsigned seed = 1, turn = 0;
  const bool all = test_device() == cpu || testing::is_thorough();
  const unsigned step = all ? 1 : testing::is_slow() ? 13 : 4;  // of combinations
  for (const Regime& regime : regimes())
    for (const optimizers::Kind& kind : optimizers::kinds())
      for (const char* loss : kLosses) {
        if (turn++ % step != 0) continue;
        INFO(regime.name << ", " << kind.name << ", " << loss);
        const double expected = undisturbed_loss(regime, kind, loss);
        Trainee trainee(regime, kind, loss);
        const double first = trainee.present_loss();
        CHECK(disturbed_training(trainee, regime, seed++) == 0);
        const double reached = trainee.present_loss();
        INFO("loss " << first << " -> " << reached << ", undisturbed " << expected);
        CHECK(expected < 0.9 * first);
        CHECK(std::abs(reached - expected) < 0.05 * first);
        total += kOverflows;
      }
  CHECK(total >= (all ? 10000 : testing::is_slow() ? 1000 : 5000));
}
