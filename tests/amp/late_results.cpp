// Steps whose results are looked at late, or never, give the same bits as steps whose results are
// looked at at once, with and without overflows, on the CPU and on the device.
#include <mezzo.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../../optim/step/step_record.h"
#include "../../optim/step/step_state.h"
#include "../support/catch.h"
#include "../support/optimizers.h"
#include "../support/throws.h"
#include "../support/values.h"
#include "nets.h"

using namespace mezzo;
using nets::devices;
using testing::kInf;

namespace {

/** When a training looks at the results of its steps. */
enum class Looks { at_once, at_the_end, in_turns };

/** Additional calls of a training. */
struct Habits {
  bool unscales = false;
  std::optional<double> max_norm = {};
  bool reads = false;  // sometimes reads the scale and the result
};

struct Outcome {
  std::vector<double> numbers;
  std::vector<optim::StepResult> results;  // of all steps
  std::vector<optim::StepResult> latest;   // as last_result() returned them
};

void add_all(Outcome& outcome, const optim::StateDict& state) {
  for (const auto& [name, value] : state.scalars) outcome.numbers.push_back(value);
  for (const auto& [name, x] : state.tensors)
    for (const double v : x.to(cpu).to_vector<double>()) outcome.numbers.push_back(v);
}

/** Runs 24 steps; one gradient in `one_in` is infinite or NaN. */
Outcome train_late(const optimizers::Factory& make, Device device, Looks looks,
                   const Habits& habits, unsigned seed) {
  manual_seed(seed);
  std::mt19937 chance(seed);
  std::vector<Tensor> params;
  for (const std::int64_t n : {3, 70, 1030})
    params.push_back(randn({n}).to(device).requires_grad_());
  const auto optimizer = make(params);
  amp::GradScaler scaler({.init_scale = 1024,
                          .growth_interval = 3,
                          .max_scale = 0x1p14,
                          .hysteresis = static_cast<int>(1 + seed % 2),
                          .max_consecutive_skips = 0});
  Outcome outcome;
  for (int step = 0; step < 24; ++step) {
    optimizer->zero_grad();
    Tensor loss = zeros({}, {.device = device});
    const bool overflows = chance() % 4 == 0;
    const std::size_t where = chance() % params.size();
    for (std::size_t i = 0; i < params.size(); ++i) {
      const Tensor g = randn(params[i].shape());
      if (overflows && i == where) g.select(0, 1).fill_(chance() % 2 == 0 ? kInf : NAN);
      loss = loss + sum(params[i] * g.to(device));
    }
    scaler.scale(loss).backward();
    if (habits.unscales) scaler.unscale_(*optimizer);
    const optim::StepOptions options{.max_norm = habits.max_norm};
    outcome.results.push_back(scaler.step(*optimizer, options));
    if (looks == Looks::at_once || (looks == Looks::in_turns && step % 5 >= 3))
      CHECK((outcome.results.back() == optim::StepResult::skipped) == overflows);
    CHECK((device == cpu) <= outcome.results.back().is_known());
    const bool asked = habits.reads && step % 3 == 0;
    if (asked) {
      CHECK(scaler.found_inf(*optimizer) == overflows);
      outcome.latest.push_back(optimizer->last_result());
    }
    scaler.update();
    if (asked) outcome.numbers.push_back(scaler.get_scale());
    if (habits.reads && step == 11) {
      scaler.load_state_dict(scaler.state_dict());
      optimizer->load_state_dict(optimizer->state_dict());
      optimizer->set_lr(optimizer->lr() / 2);
    }
  }
  outcome.latest.push_back(optimizer->last_result());
  for (const auto& [name, value] : scaler.state_dict()) outcome.numbers.push_back(value);
  add_all(outcome, optimizer->state_dict());
  for (const Tensor& p : params)
    for (const double v : p.to(cpu).to_vector<double>()) outcome.numbers.push_back(v);
  return outcome;
}

void check_same(const Outcome& a, const Outcome& b) {
  REQUIRE(a.numbers.size() == b.numbers.size());
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.numbers.size(); ++i)
    different += a.numbers[i] != b.numbers[i] ? 1 : 0;
  CHECK(different == 0);
  CHECK(a.results == b.results);
  CHECK(a.latest == b.latest);
}

}  // namespace

TEST_CASE("steps whose results are looked at late have the bits of others", "[late]") {
  unsigned seed = 0;
  for (const Device device : devices())
    for (const optimizers::Kind& kind : optimizers::kinds())
      for (const Habits& habits :
           {Habits{}, Habits{.reads = true},
            Habits{.unscales = true, .max_norm = 0.5, .reads = true}, Habits{.max_norm = 2}}) {
        INFO(str(device) << " " << kind.name << " seed " << ++seed);
        check_same(train_late(kind.make, device, Looks::at_once, habits, seed),
                   train_late(kind.make, device, Looks::at_the_end, habits, seed));
      }
}

TEST_CASE("some results may be looked at at once and others late", "[late]") {
  unsigned seed = 100;
  for (const Device device : devices())
    for (const optimizers::Kind& kind : optimizers::kinds()) {
      INFO(str(device) << " " << kind.name);
      const Habits habits{.reads = ++seed % 2 == 0};
      check_same(train_late(kind.make, device, Looks::at_once, habits, seed),
                 train_late(kind.make, device, Looks::in_turns, habits, seed));
    }
}

namespace {

/** One parameter whose gradient the test sets. */
struct Recipient {
  explicit Recipient(Device device) : p(ones({2}, {.device = device}).requires_grad_()) {}
  Tensor p;
  optim::FusedAdam optimizer{{p}, {.lr = 0.1}};

  void step(amp::GradScaler& scaler, double gradient) {
    optimizer.zero_grad();
    scaler.scale(sum(p * gradient)).backward();
    scaler.step(optimizer);
    scaler.update();
  }
};

}  // namespace

TEST_CASE("consecutive skips end in DivergenceError at the step on the CPU", "[late]") {
  Recipient one(cpu);
  amp::GradScaler scaler({.max_consecutive_skips = 4});
  one.step(scaler, 1);
  for (int i = 0; i < 3; ++i) one.step(scaler, kInf);
  CHECK(one.optimizer.consecutive_skips() == 3);
  CHECK_THROWS_WITH_AS_TEXT(one.step(scaler, kInf), amp::DivergenceError,
                            "4 consecutive steps skipped");
  CHECK(one.optimizer.last_result() == optim::StepResult::skipped);
  CHECK(one.optimizer.consecutive_skips() == 0);
  scaler.update();
  one.step(scaler, 1);
  CHECK(one.optimizer.last_result() == optim::StepResult::stepped);
}

TEST_CASE("consecutive skips on a device end in DivergenceError, when read or within 100 steps",
          "[late]") {
  for (const Device device : devices()) {
    if (device == cpu) continue;
    INFO(str(device));
    Recipient asked(device), polled(device);
    amp::GradScaler scaler({.max_consecutive_skips = 4}), other({.max_consecutive_skips = 4});
    asked.step(scaler, 1);
    for (int i = 0; i < 3; ++i) asked.step(scaler, kInf);
    CHECK(asked.optimizer.last_result() == optim::StepResult::skipped);
    CHECK(asked.optimizer.consecutive_skips() == 3);
    asked.step(scaler, kInf);
    CHECK_THROWS_WITH_AS_TEXT(asked.optimizer.last_result(), amp::DivergenceError,
                              "4 consecutive steps skipped");
    CHECK(asked.optimizer.consecutive_skips() == 0);
    asked.step(scaler, 1);
    CHECK(asked.optimizer.last_result() == optim::StepResult::stepped);

    polled.step(other, 1);
    int survived = 0;
    const auto overflow = [&] {
      for (; survived < 300; ++survived) polled.step(other, kInf);
    };
    CHECK_THROWS_AS(overflow(), amp::DivergenceError);
    CHECK(survived < 4 + 2 * optim::StepState::kPollSteps);
  }
}

TEST_CASE("a scaler records in which direction its scale changed", "[late]") {
  Recipient one(cpu);
  amp::GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  one.step(scaler, 1);
  one.step(scaler, kInf);
  CHECK(scaler.get_scale() == 4);
  CHECK(scaler.events().back().text() == "step 2: 8 -> 4 (overflow, inf at [0] of parameter 0)");
  one.step(scaler, 1);
  one.step(scaler, 1);
  CHECK(scaler.get_scale() == 8);
  CHECK(scaler.events().back().reason == amp::ScaleReason::growth);
  const amp::GradScaler copy = scaler;
  one.step(scaler, kInf);
  CHECK(copy.get_scale() == 8);
  scaler.update(100);
}

TEST_CASE("a scale also grows if its counter exceeds the interval, on the device too", "[late]") {
  for (const Device device : devices()) {
    Recipient one(device);
    amp::GradScaler scaler({.init_scale = 8, .growth_interval = 100});
    for (int i = 0; i < 3; ++i) one.step(scaler, 1);
    CHECK(scaler.get_scale() == 8);
    scaler.set_growth_interval(2);
    one.step(scaler, 1);
    CHECK(scaler.get_scale() == 16);
    auto state = scaler.state_dict();
    CHECK(state.at("_growth_tracker") == 0);
    state["_growth_tracker"] = 7;
    amp::GradScaler loaded({.init_scale = 8, .growth_interval = 100});
    loaded.load_state_dict(state);
    Recipient other(device);
    other.step(loaded, 1);
    CHECK(loaded.get_scale() == 32);
  }
}

TEST_CASE("steps of a GradScaler in the wrong order are refused", "[late]") {
  for (const Device device : devices()) {
    Recipient one(device);
    amp::GradScaler scaler;
    CHECK_THROWS_WITH_AS_TEXT(scaler.step(one.optimizer), StateError,
                              "no loss has been scaled yet");
    scaler.scale(sum(one.p)).backward();
    scaler.step(one.optimizer);
    CHECK_THROWS_WITH_AS_TEXT(scaler.step(one.optimizer), StateError, "step was called already");
    CHECK_THROWS_WITH_AS_TEXT(one.optimizer.step({.max_norm = -1}), ValueError, "max_norm");
  }
}

TEST_CASE("a first step can be skipped, although its states do not exist", "[late]") {
  for (const Device device : devices()) {
    Recipient one(device);
    amp::GradScaler scaler({.init_scale = 8});
    one.step(scaler, kInf);
    CHECK(one.optimizer.last_result() == optim::StepResult::skipped);
    CHECK(one.p.to(cpu).to_vector<double>() == std::vector{1.0, 1.0});
    CHECK(scaler.get_scale() == 4);
    one.step(scaler, 1);
    CHECK(one.optimizer.last_result() == optim::StepResult::stepped);
    CHECK(one.p.to(cpu).to_vector<double>()[1] < 1);
  }
}

TEST_CASE("a result is kept for 128 steps, and longer than its optimizer", "[late]") {
  for (const Device device : devices()) {
    if (device == cpu) continue;
    auto one = std::make_unique<Recipient>(device);
    amp::GradScaler scaler;
    const auto step = [&](double gradient) {
      one->optimizer.zero_grad();
      scaler.scale(sum(one->p * gradient)).backward();
      const optim::StepResult result = scaler.step(one->optimizer);
      scaler.update();
      return result;
    };
    (void)step(1);
    const optim::StepResult first = step(kInf);
    std::vector<optim::StepResult> results;
    for (int i = 1; i < optim::StepResult::kKept; ++i)
      results.push_back(step(i % 3 == 0 ? kInf : 1));
    CHECK(first == optim::StepResult::skipped);
    for (int i = 1; i < optim::StepResult::kKept; ++i)
      CHECK((results[static_cast<std::size_t>(i - 1)] == optim::StepResult::skipped) ==
            (i % 3 == 0));
    const optim::StepResult old = step(1);
    for (int i = 0; i < optim::StepResult::kKept; ++i) step(1);
    CHECK_THROWS_WITH_AS_TEXT(old.value(), StateError, "the result is too old");
    CHECK(first == optim::StepResult::skipped);  // it was looked at
    const optim::StepResult taken = step(1), left_out = step(kInf);
    one.reset();
    CHECK(taken == optim::StepResult::stepped);
    CHECK(left_out == optim::StepResult::skipped);
  }
}

TEST_CASE("a session reports the skips on a device when it learns of them", "[late]") {
  for (const Device device : devices()) {
    INFO(str(device));
    const Tensor p = ones({2}, {.device = device}).requires_grad_();
    optim::FusedAdam optimizer({p}, {.lr = 0.1});
    std::vector<std::string> lines;
    const auto former = amp::set_log_sink([&](Severity, std::string_view line) {
      if (line.find("overflow") != std::string_view::npos) lines.emplace_back(line);
    });
    amp::Options options;
    options.max_consecutive_skips = 4;
    auto session = amp::initialize({}, optimizer, options);
    const auto step = [&](double factor) {
      optimizer.zero_grad();
      amp::scale_loss(sum(p * factor), optimizer, [](const Tensor& loss) { loss.backward(); });
      return optimizer.step();
    };
    (void)step(1);
    (void)step(kInf);
    (void)step(kInf);
    CHECK(optimizer.last_result() == optim::StepResult::skipped);
    const std::string text =
        "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to ";
    const std::string why =
        ": inf at [0] of parameter 0; normal in the first steps, until the scale fits";
    CHECK(lines == (device == cpu
                        ? std::vector{text + "32768.0" + why, text + "16384.0" + why}
                        : std::vector{text + "16384.0 (2 steps since the last message)" + why}));
    (void)step(kInf);
    CHECK_THROWS_WITH_AS_TEXT(step(kInf).value(), amp::DivergenceError,
                              "step(optimizer 0): 4 consecutive steps skipped; got inf at [0] of "
                              "parameter 0 (first non-finite gradient), loss inf since step 2, "
                              "loss scale 4096");
    CHECK(step(1) == optim::StepResult::stepped);
    amp::set_log_sink(former);
  }
}

TEST_CASE("an overflow of one loss leaves the scale of another", "[late]") {
  for (const Device device : devices())
    for (const bool first_overflows : {false, true}) {
      INFO(str(device) << " " << first_overflows);
      const Tensor p = ones({2}, {.device = device}).requires_grad_();
      optim::FusedAdam optimizer({p}, {.lr = 0.1});
      auto session = amp::initialize({}, optimizer, {.num_losses = 2, .verbosity = 0});
      const auto scope = [&](int loss_id, double factor) {
        amp::scale_loss(sum(p * factor), optimizer, {.loss_id = loss_id},
                        [](const Tensor& loss) { loss.backward(); });
      };
      for (int i = 0; i < 3; ++i) {
        optimizer.zero_grad();
        scope(0, i == 1 && first_overflows ? kInf : 1);
        scope(1, i == 1 && !first_overflows ? kInf : 1);
        CHECK((optimizer.step() == optim::StepResult::skipped) == (i == 1));
      }
      CHECK(session.loss_scaler(0).loss_scale() == (first_overflows ? 32768 : 65536));
      CHECK(session.loss_scaler(1).loss_scale() == (first_overflows ? 65536 : 32768));
    }
}

TEST_CASE("the power function of a device is correctly rounded", "[late]") {
  int different = 0;
  for (const double beta : {0.9, 0.999, 0.5, 0.95, 0.98, 0.99, 0.9999, 0.123})
    for (std::int64_t t = 1; t < 30000; t += 1 + t / 700) {
      const double exact = optim::exact_power(beta, t),
                   usual = std::pow(beta, static_cast<double>(t));
      CHECK(std::fabs(exact - usual) <= 3e-16 * usual);
      different +=
          static_cast<float>(1 / (1 - exact)) != static_cast<float>(1 / (1 - usual)) ? 1 : 0;
    }
  CHECK(different == 0);
}
