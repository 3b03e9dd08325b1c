// Scripted sequences of iterations of a GradScaler.
#include <mezzo.h>

#include "../support/catch.h"
#include "../support/device.h"
#include "nets.h"
#include "timelines.h"

using namespace mezzo;
using nets::kThere;
using timelines::Token;

namespace {

struct ScalerTimeline {
  const char* name;
  amp::GradScalerOptions options;
  const char* script;
  const char* expected;
};

// A word is an iteration: one sign per optimizer, "." a finite gradient, "x" an infinite one, "n"
// none; "+" joins micro-batches. "u" unscales before the step, "!" unscales and does not step, "=8"
// sets the scale instead of the plain update, and "=8" alone between iterations. The expectation:
// scale/growth tracker, /tolerance if there is one, and a result per optimizer: stepped (s),
// skipped (k), no gradients (n).
const ScalerTimeline kTimelines[] = {
    {"a window of 2000", {}, "1999. . x", "65536/1999:s 131072/0:s 65536/0:k"},
    {"growth boundary",
     {.init_scale = 8, .growth_interval = 3},
     "2. . x 2. x 3.",
     "8/2:s 16/0:s 8/0:k 8/2:s 4/0:k 8/0:s"},
    {"an interval of one", {.init_scale = 1, .growth_interval = 1}, ". . x", "2/0:s 4/0:s 2/0:k"},
    {"other factors",
     {.init_scale = 16, .growth_factor = 3, .backoff_factor = 0.25, .growth_interval = 2},
     "2. x",
     "48/0:s 12/0:k"},
    {"a back-off that is no power of two",
     {.init_scale = 1000, .backoff_factor = 0.9},
     "x x",
     "900/0:k 810/0:k"},
    {"growth beyond the cap does not happen",
     {.init_scale = 8, .growth_interval = 1, .max_scale = 20},
     ". . x .",
     "16/0:s 16/0:s 8/0:k 16/0:s"},
    {"growth up to the cap happens",
     {.init_scale = 8, .growth_interval = 1, .max_scale = 32},
     "2. .",
     "32/0:s 32/0:s"},
    {"growth beyond f32 does not happen",
     {.init_scale = 0x1p126, .growth_interval = 1},
     ". .",
     "1.7014118e+38/0:s 1.7014118e+38/0:s"},
    {"the user's floor", {.init_scale = 16, .min_scale = 4}, "x x x .", "8/0:k 4/0:k 4/0:k 4/1:s"},
    {"a floor between two back-offs", {.init_scale = 16, .min_scale = 10}, "x x", "10/0:k 10/0:k"},
    {"no floor given: the smallest normal float",
     {.init_scale = 0x1p-125},
     "x x .",
     "1.1754944e-38/0:k 1.1754944e-38/0:k 1.1754944e-38/1:s"},
    {"hysteresis tolerates one overflow",
     {.init_scale = 8, .growth_interval = 2, .hysteresis = 2},
     "x . x x . .",
     "8/0/1:k 8/1/2:s 8/0/1:k 4/0/0:k 4/1/2:s 8/0/2:s"},
    {"once exhausted every overflow backs off",
     {.init_scale = 32, .hysteresis = 3},
     "x x x x x .",
     "32/0/2:k 32/0/1:k 16/0/0:k 8/0/0:k 4/0/0:k 4/1/3:s"},
    {"a tolerated overflow ends the window",
     {.init_scale = 8, .growth_interval = 3, .hysteresis = 2},
     "2. x 2. .",
     "8/2/2:s 8/0/1:k 8/2/2:s 16/0/2:s"},
    {"an iteration without gradients is not an update",
     {.init_scale = 8, .growth_interval = 3},
     "n . n x n",
     "8/0:n 8/1:s 8/1:n 4/0:k 4/0:n"},
    {"an iteration without gradients does not restore the tolerance",
     {.init_scale = 8, .hysteresis = 2},
     "x n x",
     "8/0/1:k 8/0/1:n 4/0/0:k"},
    {"an overflow of one of two optimizers backs off once and skips that optimizer",
     {.init_scale = 8, .growth_interval = 2},
     ".x .. xx xn n.",
     "4/0:sk 4/1:ss 2/0:kk 1/0:kn 1/1:ns"},
    {"micro-batches",
     {.init_scale = 8, .growth_interval = 2},
     ".+x x+. .+. .+.+.",
     "4/0:k 2/0:k 2/1:s 4/0:s"},
    {"unscaling first",
     {.init_scale = 8, .growth_interval = 2},
     ".u xu .u .u",
     "8/1:s 4/0:k 4/1:s 8/0:s"},
    {"unscaling alone", {.init_scale = 8}, ".! x! .", "8/1: 4/0: 4/1:s"},
    {"setting the scale does not change the window",
     {.init_scale = 8, .growth_interval = 3},
     ". =100 . .",
     "8/1:s 100/1: 100/2:s 200/0:s"},
    {"setting the scale replaces the result of the iteration",
     {.init_scale = 8, .hysteresis = 2},
     ". x=100 x",
     "8/1/2:s 100/1/2:k 100/0/1:k"},
    {"saved and restored inside a window",
     {.init_scale = 8, .growth_interval = 3},
     "2. save x load .",
     "8/2:s saved 4/0:k loaded 16/0:s"},
    {"saved and restored inside a tolerance",
     {.init_scale = 8, .hysteresis = 2},
     "x save x load x",
     "8/0/1:k saved 4/0/0:k loaded 4/0/0:k"},
    {"a copy continues independently from the same state",
     {.init_scale = 8, .growth_interval = 3, .hysteresis = 2},
     "2. x copy . x",
     "8/2/2:s 8/0/1:k copied 8/1/2:s 8/0/1:k"},
};

constexpr std::size_t kOptimizers = 2;

class ScalerStage {
 public:
  explicit ScalerStage(const ScalerTimeline& t) : options_(t.options), scaler_(t.options) {
    scaler_.scale(ones({}, kThere));
  }

  std::string play(const Token& token) {
    if (token.what == "save") return saved_ = scaler_.state_dict(), "saved";
    if (token.what == "load") return load(), "loaded";
    if (token.what == "copy") return scaler_ = amp::GradScaler(scaler_), "copied";
    std::string verdicts;
    for (int i = 0; i < token.count; ++i) verdicts = iterate(token);
    return sight() + ":" + verdicts;
  }

 private:
  std::string iterate(const Token& token) {
    for (std::size_t k = 0; k < kOptimizers; ++k) p_[k].set_grad({});
    std::size_t used = 0;
    bool next = true;
    for (const char sign : token.what.substr(0, token.what.find_first_of("u!="))) {
      if (next && sign != '+') ++used;
      if (sign == '.' || sign == 'x')
        scaler_.scale(p_[used - 1] * (sign == 'x' ? HUGE_VAL : 1)).backward();
      next = sign != '+';
    }
    std::string verdicts;
    for (std::size_t k = 0; k < used; ++k) verdicts += step(*optimizers_[k], token);
    token.has('=') ? scaler_.update(token.value()) : scaler_.update();
    return verdicts;
  }

  std::string step(optim::Optimizer& optimizer, const Token& token) {
    if (token.has('u') || token.has('!')) scaler_.unscale_(optimizer);
    if (token.has('!')) return "";
    switch (scaler_.step(optimizer)) {
      case amp::StepResult::stepped: return "s";
      case amp::StepResult::skipped: return "k";
      case amp::StepResult::no_grads: break;
    }
    return "n";
  }

  /** Loads the state into a new scaler, as in a resumed program. */
  void load() {
    amp::GradScaler fresh(options_);
    fresh.load_state_dict(saved_);
    fresh.scale(ones({}, kThere));
    scaler_ = fresh;
  }

  std::string sight() const {
    const auto state = scaler_.state_dict();
    const auto tolerance = state.find("hysteresis_tracker");
    return str(static_cast<float>(scaler_.get_scale()), "/",
               static_cast<int>(state.at("_growth_tracker")),
               tolerance == state.end() ? "" : str("/", static_cast<int>(tolerance->second)));
  }

  amp::GradScalerOptions options_;
  amp::GradScaler scaler_;
  std::map<std::string, double> saved_;
  Tensor p_[kOptimizers] = {zeros({}, kThere).requires_grad_(), zeros({}, kThere).requires_grad_()};
  optim::SGD first_{{p_[0]}}, second_{{p_[1]}};
  optim::Optimizer* optimizers_[kOptimizers] = {&first_, &second_};
};

}  // namespace

TEST_CASE("timelines of a GradScaler", "[scaler]") {
  for (const ScalerTimeline& t : kTimelines) {
    INFO(t.name << ": " << t.script);
    ScalerStage stage(t);
    CHECK(timelines::sights(t.script, [&](const Token& token) { return stage.play(token); }) ==
          t.expected);
  }
}
