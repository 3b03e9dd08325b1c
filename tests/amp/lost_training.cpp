// Losses and gradients that are not finite: levels that skip no step find them and name the step,
// and a training that diverges says since when the loss is not finite.
#include <limits>

#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"
#include "nets.h"

using namespace nets;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
const bool kOnCpu = test_device() == cpu;

/** A step on loss_of(net) * factor. */
amp::StepResult scaled_step(const Net& net, optim::Optimizer& optimizer, double factor = 1) {
  optimizer.zero_grad();
  amp::scale_loss(loss_of(net) * factor, optimizer, run_backward);
  return optimizer.step();
}

bool all_finite(optim::Optimizer& optimizer) {
  for (const Tensor& p : optimizer.params())
    if (!isfinite(p).all().item<bool>()) return false;
  return true;
}

/** Returns the text of the DivergenceError that one of at most `most` calls of f throws, with the
 *  number of the call. */
template <class F> std::pair<int, std::string> first_error(int most, F&& f) {
  for (int i = 1; i <= most; ++i) try {
      f(i);
    } catch (const amp::DivergenceError& e) {
      return {i, e.what()};
    }
  return {0, "none"};
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const char* static_level() { return GENERATE("O0", "O3", "O4", "O5"); }

}  // namespace

TEST_CASE("a bad batch at a level that skips nothing is an error before it reaches the weights") {
  if (!kOnCpu) return;  // on a device the loss is not looked at
  const std::string level = static_level();
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 1e-3});
  const auto session = amp::initialize(net, optimizer, quiet(level.c_str()));
  for (int i = 1; i < 7; ++i) CHECK(scaled_step(net, optimizer) == amp::StepResult::stepped);
  const std::string text =
      error_of<amp::DivergenceError>([&] { scaled_step(net, optimizer, kNan); });
  CHECK(text ==
        "step(optimizer 0): a gradient of step 7 is not finite; the weights are finite still; got "
        "nan at [0,0] of first.weight (first non-finite gradient), loss nan since step 7, expected "
        "finite; run under amp::detect_nonfinite; zero_grad() drops the gradients, "
        "check_static_overflow skips such steps");
  CHECK(all_finite(optimizer));
  CHECK(scaled_step(net, optimizer) == amp::StepResult::stepped);  // goes on
  CHECK(all_finite(optimizer));
}

TEST_CASE("gradients that are not finite are found within 50 steps without a look at the loss") {
  const std::string level = static_level();
  const bool has_masters = level == "O5";
  if (has_masters && kOnCpu) return;  // needs scale_loss, which looks at the loss
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 1e-3});
  const auto session = amp::initialize(net, optimizer, quiet(level.c_str()));
  const auto [at, text] = first_error(160, [&](int i) {
    const Tensor loss = loss_of(net) * (i == 7 ? kNan : 1);
    optimizer.zero_grad();
    if (!has_masters)
      loss.backward();
    else
      amp::scale_loss(loss, optimizer, run_backward);
    optimizer.step();
  });
  INFO(text);
  if (kOnCpu)
    CHECK(at == 50);
  else
    CHECK((at > 50 && at <= 100));  // when the result has arrived
  CHECK(
      says(text, "gradients of step 50 are not finite, and weights since that step or an earlier"));
  CHECK(says(text, "nan at [0,0] of first.weight (first non-finite gradient)"));
  if (!kOnCpu && has_masters) CHECK(says(text, "loss nan since step 7"));
}

TEST_CASE("a finite loss with a gradient that is not finite is found in the next step") {
  if (!kOnCpu) return;
  const std::string level = GENERATE("O0", "O4", "O5");
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 1e-3});
  const auto session = amp::initialize(net, optimizer, quiet(level.c_str()));
  const auto [at, text] = first_error(100, [&](int i) {
    optimizer.zero_grad();
    Tensor loss = loss_of(net);
    if (i == 7) loss = loss + sqrt(sum(net.first.bias.to(f32)) * 0.0);  // 0, its derivative nan
    if (i == 7) CHECK(std::isfinite(loss.item<double>()));
    amp::scale_loss(loss, optimizer, run_backward);
    optimizer.step();
  });
  INFO(text);
  CHECK(at == 8);
  CHECK(
      says(text, "gradients of step 8 are not finite, and weights since that step or an earlier"));
  CHECK(says(text, "loss nan since step 8"));
}

TEST_CASE("losses that are not finite but have finite gradients are accepted") {
  const std::string level = static_level();
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 1e-3});
  const auto session = amp::initialize(net, optimizer, quiet(level.c_str()));
  const double infinity = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 120; ++i) {
    optimizer.zero_grad();
    amp::scale_loss(loss_of(net) + infinity, optimizer, run_backward);
    CHECK(optimizer.step() == amp::StepResult::stepped);
  }
  CHECK(all_finite(optimizer));
}

TEST_CASE("the search is off with max_consecutive_skips = 0, and where steps are skipped") {
  const std::string level = static_level();
  const bool skips = GENERATE(false, true);
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 1e-3});
  amp::Options options = quiet(level.c_str());
  options.check_static_overflow = skips;
  options.max_consecutive_skips = 0;
  const auto session = amp::initialize(net, optimizer, options);
  const auto expected = skips ? amp::StepResult::skipped : amp::StepResult::stepped;
  for (int i = 0; i < 120; ++i) CHECK(scaled_step(net, optimizer, kNan) == expected);
}

TEST_CASE("several losses and optimizers: the optimizer whose gradient is lost is named") {
  if (!kOnCpu) return;
  Net a(0), b(1);
  optim::SGD of_a(a.parameters(), {.lr = 1e-3}), of_b(b.parameters(), {.lr = 1e-3});
  const auto session =
      amp::initialize({a, b}, {of_a, of_b}, {.opt_level = "O4", .num_losses = 2, .verbosity = 0});
  of_a.zero_grad();
  of_b.zero_grad();
  amp::scale_loss(loss_of(b) * kNan, of_b, {.loss_id = 1}, run_backward);
  amp::scale_loss(loss_of(a), of_a, {.loss_id = 0}, run_backward);
  CHECK(of_a.step() == amp::StepResult::stepped);
  CHECK_THROWS_WITH_AS_TEXT(of_b.step(), amp::DivergenceError,
                            "step(optimizer 1): a gradient of step 1 is not finite");
}

TEST_CASE("a bad micro-batch of an accumulated step is found") {
  if (!kOnCpu) return;
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 1e-3});
  const auto session = amp::initialize(net, optimizer, quiet("O4"));
  for (const double factor : {1.0, kNan, 1.0})
    amp::scale_loss(loss_of(net) * factor, optimizer, run_backward);
  CHECK_THROWS_WITH_AS_TEXT(optimizer.step(), amp::DivergenceError, "loss nan since step 1");
}

// ---- divergence ---------------------------------------------------------------------------------

TEST_CASE("a training that diverges because its loss is not finite says so, and since when") {
  const std::string level = GENERATE("O1", "O2");
  const int good = GENERATE(0, 3);
  Net net;
  optim::Adam optimizer(net.parameters());
  amp::Options options = quiet(level.c_str());
  options.max_consecutive_skips = 4;
  const auto session = amp::initialize(net, optimizer, options);
  const auto [at, text] = first_error(160, [&](int i) {
    scaled_step(net, optimizer, i > good ? kNan : 1);
    (void)optimizer.last_result();
  });
  CHECK(at == good + 4);
  INFO(text);
  CHECK(says(text, str("step(optimizer 0): 4 consecutive steps skipped; got nan at [0,0] of "
                       "first.weight (first non-finite gradient), loss nan since step ",
                       good + 1, ", loss scale 4096, expected finite; the loss is not finite ")));
  CHECK(says(text, good == 0 ? "from the start, at any learning rate: look at the data"
                             : "since step 4: lower the learning rate, or look at the data"));
}

TEST_CASE("a training that diverges at a finite loss still blames the learning rate") {
  Net net;
  optim::Adam optimizer(net.parameters());
  amp::Options options = quiet("O1");
  options.max_consecutive_skips = 2;
  options.min_loss_scale = 32768.0;
  const auto session = amp::initialize(net, optimizer, options);
  const auto [at, text] = first_error(9, [&](int) {
    scaled_step(net, optimizer, 1e37);
    (void)optimizer.last_result();
  });
  INFO(text);
  CHECK(at == 2);
  CHECK(says(text, "; lower the learning rate or run under amp::detect_nonfinite"));
  CHECK_FALSE(says(text, "since step"));
}

TEST_CASE("GradScaler says since when the loss is not finite") {
  Net net;
  optim::Adam optimizer(net.parameters());
  amp::GradScaler scaler({.max_consecutive_skips = 3});
  const auto [at, text] = first_error(160, [&](int i) {
    optimizer.zero_grad();
    scaler.scale(loss_of(net) * (i > 2 ? kNan : 1)).backward();
    (void)(scaler.step(optimizer) == optim::StepResult::skipped);
    scaler.update();
  });
  INFO(text);
  CHECK(at == 5);
  CHECK(says(text, "loss nan since step 3"));
}

TEST_CASE("an overflow line names the gradient, and says that the first are normal") {
  LogCapture log;
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 1e-9});
  const auto session = amp::initialize(net, optimizer, {.opt_level = "O1"});
  log.lines.clear();
  for (int i = 0; i < 30; ++i) {
    scaled_step(net, optimizer, i == 0 || i == 29 ? kNan : 1);
    (void)optimizer.last_result();
  }
  CHECK(log.lines ==
        std::vector<std::string>{
            "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0: nan "
            "at [0,0] of first.weight; normal in the first steps, until the scale fits",
            "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 16384.0: nan "
            "at [0,0] of first.weight"});
}
