// The cost of a training step: how many kernels a captured step launches, library calls included,
// which bounds the speed of small nets; and that captured and eager steps neither allocate nor
// synchronise.
#include <mezzo.h>

#include <cmath>
#include <initializer_list>
#include <iostream>

#include "../../samples/nets/char_gpt.h"
#include "../../samples/nets/lenet.h"
#include "../../samples/nets/mlp.h"
#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"
#include "cost.h"
#include "training.h"

using namespace captured;

namespace {

/** Images and classes. */
std::vector<Tensor> images() {
  return {rand({4, 1, 28, 28}).to(kDevice), zeros({4}, {.dtype = i64, .device = kDevice})};
}

/** Stretches of text, and the following characters in one row. */
std::vector<Tensor> texts() {
  return {randint(0, 64, {2, 16}).to(kDevice), randint(0, 64, {2 * 16}).to(kDevice)};
}

/** Nets with fewer units than those of the samples, since an emulated device is slow. */
struct NarrowMlp : nn::Model<NarrowMlp> {
  samples::Mlp net = add("net", samples::Mlp{64});
  Tensor forward(const Tensor& x) const { return net(x); }
};
struct NarrowLeNet : nn::Model<NarrowLeNet> {
  samples::LeNet net = add("net", samples::LeNet{8});
  Tensor forward(const Tensor& x) const { return net(x); }
};

/** A char-GPT with as many layers as at size full. */
struct SixLayers : nn::Model<SixLayers> {
  samples::CharGpt net =
      add("net",
          samples::CharGpt{{.vocabulary = 64, .block = 16, .layers = 6, .heads = 2, .width = 32}});
  Tensor forward(const Tensor& x) const { return net(x).flatten(0, 1); }
};

/** Returns the launches of one captured step of a net at a level with Adam, and dynamic scaling
 *  where the level has it. */
template <class AnyNet>
std::int64_t launches_of(const std::string& level, const std::vector<Tensor>& in) {
  manual_seed(1);
  AnyNet net;
  net.to(kDevice);
  optim::FusedAdam optimizer(net.parameters(), {.lr = 1e-3});
  const auto session = amp::initialize(net, optimizer, {.opt_level = level, .verbosity = 0});
  gpu::CapturedStep step(training_step(net, optimizer), {kDevice});
  for (int i = 0; i < 12; ++i) step(in);  // initial overflows may delay the capture
  const emulator::LaunchLog log;
  const emulator::Counters cost = cost_of([&] { step(in); });
  std::cout << "a captured step at " << level << ":";
  for (const std::string& name : log.names) std::cout << " " << name;
  std::cout << "\n";
  CHECK(cost.allocations == 0);
  CHECK(cost.synchronisations == 0);
  return cost.launches -
         static_cast<std::int64_t>(in.size());  // without the copies into the captured inputs
}

struct Budget {
  const char* level;
  std::int64_t launches;
};

template <class AnyNet>
void check_budgets(const char* net, const std::vector<Tensor>& in,
                   std::initializer_list<Budget> budgets) {
  for (const Budget& budget : budgets) {
    const std::int64_t launches = launches_of<AnyNet>(budget.level, in);
    std::cout << "launches of a captured " << net << " step at " << budget.level << ": " << launches
              << "\n";
    INFO(budget.level);
    CHECK(launches <= budget.launches);
  }
}

}  // namespace

TEST_CASE("a captured step of the MLP stays within its launch budget", "[gpu][graph][counters]") {
  check_budgets<NarrowMlp>("MLP", images(), {{"O0", 12}, {"O1", 21}, {"O2", 14}, {"O5", 14}});
}

TEST_CASE("a captured step of LeNet stays within its launch budget", "[gpu][graph][counters]") {
  check_budgets<NarrowLeNet>("LeNet", images(), {{"O0", 20}, {"O1", 29}, {"O2", 22}, {"O5", 22}});
}

TEST_CASE("a captured step of char-GPT stays within its launch budget", "[gpu][graph][counters]") {
  check_budgets<SixLayers>("char-GPT", texts(), {{"O0", 135}, {"O2", 130}});
}

TEST_CASE("a scaled loss is computed only if it is read or kept", "[gpu][graph][counters]") {
  manual_seed(3);
  Net net;
  net.to(kDevice);
  optim::FusedAdam optimizer(net.parameters(), {.lr = 0.01});
  amp::GradScaler scaler({.init_scale = 256, .growth_interval = 1});  // it grows with each step
  const std::vector<Tensor> in = batch(8, false);
  Tensor loss, kept;
  const auto step = [&](bool keeps) {
    optimizer.zero_grad();
    loss = cross_entropy(net(in[0]), in[1]);
    Tensor scaled = scaler.scale(loss);
    scaled.backward();
    kept = keeps ? scaled : Tensor{};
    scaled = {};
    scaler.step(optimizer);
    scaler.update();
  };
  for (int i = 0; i < 3; ++i) step(false);
  const std::int64_t launches = cost_of([&] { step(false); }).launches;
  CHECK(cost_of([&] { step(true); }).launches == launches + 1);
  CHECK(cost_of([&] { step(false); }).launches == launches);
  const double scale = scaler.get_scale();
  step(true);
  CHECK(scaler.get_scale() == 2 * scale);
  CHECK(kept.item<double>() == scale * loss.item<double>());
}

TEST_CASE("a scaled loss that is read late has the scale of its time", "[gpu][graph]") {
  amp::GradScaler scaler({.init_scale = 256});
  const Tensor x = full({}, 3, {.device = kDevice});
  const Tensor early = scaler.scale(x), late = scaler.scale(x);
  const Tensor infinite = scaler.scale(full({1}, 3e38, {.device = kDevice}));
  CHECK(early.item<double>() == 768);
  scaler.update(512);
  CHECK(scaler.scale(x).item<double>() == 1536);
  CHECK(late.item<double>() == 768);
  CHECK(infinite.shape() == Shape{1});
  CHECK(infinite.item<double>() == INFINITY);
  const Tensor written = scaler.scale(x);
  x.fill_(5);
  CHECK(early.item<double>() == 768);
  CHECK_THROWS_WITH_AS_TEXT(written.item<double>(), StateError, "a loss was modified in place");
  CHECK(scaler.scale(x).item<double>() == 2560);
}

TEST_CASE("a captured step returns the scaled loss of each replay", "[gpu][graph]") {
  manual_seed(4);
  Net net;
  net.to(kDevice);
  optim::FusedAdam optimizer(net.parameters(), {.lr = 0.01});
  amp::GradScaler scaler({.init_scale = 256, .growth_interval = 1});
  gpu::CapturedStep step(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        optimizer.zero_grad();
        const Tensor loss = cross_entropy(net(in[0]), in[1]), scaled = scaler.scale(loss);
        scaled.backward();
        scaler.step(optimizer);
        scaler.update();
        return {loss, scaled};
      },
      {kDevice});
  const std::vector<Tensor> in = batch(8, false);
  for (int i = 0; i < 6; ++i) {
    const double scale = i == 0 ? 256 : scaler.get_scale();
    const std::vector<Tensor> out = step(in);
    INFO("step " << i);
    CHECK(out[1].item<double>() == scale * out[0].item<double>());
    CHECK(scaler.get_scale() == 2 * scale);
  }
}

TEST_CASE("from the third step on a captured step neither synchronises nor allocates",
          "[gpu][graph][counters]") {
  const std::string level = GENERATE(from_range(levels::names()));
  manual_seed(6);
  Net net;
  net.to(kDevice);
  optim::FusedAdam optimizer(net.parameters(), {.lr = 0.01});
  const auto session = amp::initialize(net, optimizer, {.opt_level = level, .verbosity = 0});
  gpu::CapturedStep step(training_step(net, optimizer), {kDevice});
  const std::vector<Tensor> inputs = batch(8, false);
  step(inputs);
  step(inputs);
  for (int i = 0; i < 3; ++i) {
    const emulator::Counters cost = cost_of([&] { step(inputs); });
    CHECK(cost.graph_launches == 1);
    CHECK(cost.allocations == 0);
    CHECK(cost.synchronisations == 0);
  }
}

TEST_CASE("eager steps do not allocate after the second", "[gpu][graph][counters]") {
  Net net;
  net.to(kDevice);
  optim::FusedAdam optimizer(net.parameters(), {.lr = 0.01});
  amp::GradScaler scaler({.init_scale = 256});
  const std::vector<Tensor> in = batch(8, false);
  const auto step = [&] {
    optimizer.zero_grad();
    scaler.scale(cross_entropy(net(in[0]), in[1])).backward();
    scaler.step(optimizer, {.max_norm = 1.0});
    scaler.update();
  };
  for (int i = 0; i < 3; ++i) step();
  const emulator::Counters cost = cost_of(step);
  CHECK(cost.allocations == 0);
  CHECK(cost.synchronisations == 0);
  CHECK(cost.copies == 0);
}

TEST_CASE("steps of FusedSGD with masters do not synchronise", "[gpu][graph][counters]") {
  Net net;
  net.to(kDevice);
  optim::FusedSGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  const auto session = amp::initialize(net, optimizer, {.opt_level = "O2", .verbosity = 0});
  const auto run = training_step(net, optimizer);
  gpu::CapturedStep captured(run, {kDevice});
  const std::vector<Tensor> in = batch(8, false);
  for (int i = 0; i < 3; ++i) run(in);
  CHECK(cost_of([&] { run(in); }).synchronisations == 0);
  for (int i = 0; i < 3; ++i) captured(in);
  CHECK(cost_of([&] { captured(in); }).synchronisations == 0);
}
