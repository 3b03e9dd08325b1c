// Recurrent layers in one launch for all steps: they agree with an f64 oracle and with the kernels
// for single steps, their bits depend neither on the schedule nor on the number of blocks, and
// other layers run step by step.
#include "recurrent.h"

#include "../../cuda/kernels/recurrent/persistent_plan.h"
#include "../emulator/counters.h"
#include "../emulator/fill.h"
#include "emulation.h"

using namespace recurrent;
using emulation::ResidentScope;

namespace {

/** Returns the results and gradients on the device, and sets `at_once` to the number of launches of
 *  persistent kernels. */
std::vector<Tensor> run_layer(const LayerCase& c, const std::vector<Tensor>& operands,
                              std::int64_t* at_once = nullptr) {
  const emulator::LaunchLog log;
  std::vector<Tensor> results =
      results_on(kDevice, operands, [&](const std::vector<Tensor>& t) { return layer(c, t); });
  if (at_once)
    *at_once = std::count_if(log.names.begin(), log.names.end(), [](const std::string& name) {
      return name.find("recurrent_persistent") == 0 && name.find(".cu") != std::string::npos;
    });
  for (Tensor& x : results) x = x.to(cpu);
  return results;
}

/** Returns the largest difference, relative to the largest number. */
double apart(const Tensor& got, const Tensor& expected) {
  const std::vector<double> a = got.to_vector<double>(), b = expected.to_vector<double>();
  double greatest = 0, most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    greatest = std::max(greatest, std::abs(b[i]));
    most = std::isnan(a[i]) ? std::numeric_limits<double>::infinity()
                            : std::max(most, std::abs(a[i] - b[i]));
  }
  return greatest > 0 ? most / greatest : most;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].to_vector<double>() != b[i].to_vector<double>()) return false;
  return a.size() == b.size();
}

const std::vector<LayerCase> kOddCases{
    {.kind = CellKind::lstm, .batch = 5, .features = 7, .hidden = 17},
    {.kind = CellKind::lstm, .steps = 3, .batch = 33, .hidden = 40, .bidirectional = true},
    {.kind = CellKind::lstm, .batch = 16, .hidden = 32, .biases = false, .states = false},
    {.kind = CellKind::lstm, .steps = 5, .batch = 18, .hidden = 24, .lengths = lengths_of(18, 5)},
    {.kind = CellKind::lstm,
     .steps = 4,
     .batch = 5,
     .hidden = 16,
     .bidirectional = true,
     .lengths = {2, 4, 1, 0, 3}},
    {.kind = CellKind::gru, .batch = 20, .hidden = 33, .biases = false},
    {.kind = CellKind::gru, .steps = 3, .batch = 17, .hidden = 48, .bidirectional = true},
    {.kind = CellKind::gru, .batch = 3, .hidden = 8, .bidirectional = true, .lengths = {1, 4, 2}},
    {.kind = CellKind::tanh, .steps = 6, .batch = 40, .hidden = 70},
    {.kind = CellKind::relu, .batch = 2, .hidden = 1, .states = false},
    {.kind = CellKind::relu, .batch = 19, .hidden = 64, .bidirectional = true},
    // the fewest steps; groups of several tiles, of which the last is not full
    {.kind = CellKind::lstm, .steps = 2, .batch = 129, .hidden = 65},
    {.kind = CellKind::gru,
     .steps = 7,
     .batch = 130,
     .hidden = 47,
     .bidirectional = true,
     .lengths = lengths_of(130, 7)},
};

}  // namespace

TEST_CASE("layers in one launch agree with an f64 oracle and with single steps",
          "[gpu][recurrent][persistent]") {
  for (const DType dtype : {f16, bf16})
    for (const LayerCase& c : kOddCases) {
      INFO(name(dtype) << " case " << (&c - kOddCases.data()));
      const std::vector<Tensor> operands = operands_of(c, dtype);
      std::int64_t at_once = 0;
      const std::vector<Tensor> got = run_layer(c, operands, &at_once);
      CHECK(at_once == (c.bidirectional ? 4 : 2));
      std::vector<Tensor> wide;
      for (const Tensor& x : operands) wide.push_back(x.to(f64));
      const std::vector<Tensor> exact =
          results_on(cpu, wide, [&](const std::vector<Tensor>& t) { return layer(c, t); });
      const ResidentScope none(0);
      const std::vector<Tensor> by_steps = run_layer(c, operands, &at_once);
      CHECK(at_once == 0);
      for (std::size_t i = 0; i < got.size(); ++i) {
        INFO("result " << i);
        CHECK(apart(got[i], exact[i]) < library_tolerance(dtype));
        CHECK(apart(got[i], by_steps[i]) < library_tolerance(dtype) / 4);
      }
    }
}

TEST_CASE("a layer of about 512 units runs in one launch", "[gpu][recurrent][persistent]") {
  const ResidentScope many(66);
  for (const LayerCase& c :
       {LayerCase{.kind = CellKind::lstm, .steps = 3, .batch = 2, .hidden = 512},
        LayerCase{.kind = CellKind::gru, .steps = 2, .batch = 2, .hidden = 511},
        LayerCase{.kind = CellKind::lstm, .steps = 3, .batch = 2, .hidden = 519},
        LayerCase{.kind = CellKind::gru, .steps = 2, .batch = 2, .hidden = 513},
        LayerCase{.kind = CellKind::tanh, .steps = 3, .batch = 2, .hidden = 528}}) {
    INFO("hidden " << c.hidden);
    const std::vector<Tensor> operands = operands_of(c, bf16);
    std::int64_t at_once = 0;
    const std::vector<Tensor> got = run_layer(c, operands, &at_once);
    CHECK(at_once == 2);
    const ResidentScope none(0);
    const std::vector<Tensor> by_steps = run_layer(c, operands);
    for (std::size_t i = 0; i < got.size(); ++i)
      CHECK(apart(got[i], by_steps[i]) < library_tolerance(bf16) / 4);
  }
}

TEST_CASE("the bits of layers in one launch depend on neither schedule nor number of blocks",
          "[gpu][recurrent][persistent]") {
  const LayerCase c{.kind = CellKind::lstm, .batch = 50, .hidden = 40};
  const std::vector<Tensor> operands = operands_of(c, bf16);
  const std::vector<Tensor> expected = run_layer(c, operands);
  for (const auto schedule : emulation::kSchedules) {
    const emulation::ScheduleScope scope(schedule);
    CHECK(same_bits(run_layer(c, operands), expected));
  }
  for (const std::int64_t blocks : {4, 6}) {  // groups of several tiles
    const ResidentScope scope(blocks);
    std::int64_t at_once = 0;
    CHECK(same_bits(run_layer(c, operands, &at_once), expected));
    CHECK(at_once == 2);
  }
}

TEST_CASE("layers in one launch that follow each other have the bits of each alone",
          "[gpu][recurrent][persistent]") {
  // numbers of blocks that differ, and of groups, which have flags in common
  const std::vector<LayerCase> cases{
      {.kind = CellKind::lstm, .steps = 3, .batch = 40, .hidden = 100},
      {.kind = CellKind::gru, .steps = 6, .batch = 3, .hidden = 20},
      {.kind = CellKind::tanh, .steps = 2, .batch = 100, .hidden = 33}};
  std::vector<std::vector<Tensor>> alone;
  for (const LayerCase& c : cases) alone.push_back(run_layer(c, operands_of(c, bf16)));
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = cases.size(); i-- > 0;)
      CHECK(same_bits(run_layer(cases[i], operands_of(cases[i], bf16)), alone[i]));
}

TEST_CASE("layers that do not fit run step by step", "[gpu][recurrent][persistent]") {
  const auto launches = [](const LayerCase& c, DType dtype) {
    std::int64_t at_once = 0;
    (void)run_layer(c, operands_of(c, dtype), &at_once);
    return at_once;
  };
  const LayerCase small{.kind = CellKind::lstm, .hidden = 16};
  CHECK(launches(small, f16) == 2);
  CHECK(launches(small, f32) == 0);
  CHECK(launches({.kind = CellKind::lstm, .hidden = 16, .projected = 4}, f16) == 0);
  CHECK(launches({.kind = CellKind::lstm, .steps = 1, .hidden = 16}, f16) == 0);
  CHECK(launches({.kind = CellKind::tanh, .steps = 2, .batch = 1, .hidden = 1025}, f16) == 0);
  {
    const ResidentScope two(2);
    CHECK(launches({.kind = CellKind::lstm, .hidden = 48}, f16) ==
          1);  // the backward pass needs two
    CHECK(launches({.kind = CellKind::lstm, .batch = 65 * 2, .hidden = 16}, f16) == 0);
  }
  const emulation::CapabilityScope old(emulation::kWithoutTensorCores);
  CHECK(launches(small, f16) == 0);
}

TEST_CASE("layers in one launch are chosen by predicted time", "[gpu][recurrent][persistent]") {
  const auto plan = [](std::int64_t batch, std::int64_t hidden, bool backward) {
    return gpu::PersistentSizes{
        .gates = 4, .steps = 128, .batch = batch, .hidden = hidden, .backward = backward}
        .plan(emulator::kMultiprocessors);
  };
  // the char-LSTM
  const auto forward = plan(64, 512, false), backward = plan(64, 512, true);
  REQUIRE(forward);
  REQUIRE(backward);
  CHECK(forward->blocks() == 128);
  CHECK(forward->tiles == 1);
  CHECK(backward->blocks() == 64);
  CHECK(plan(64, 1024, false)->tiles == 2);
  CHECK(plan(2, 1024, false)->slices == 64);
  CHECK_FALSE(plan(2, 1025, false));
  CHECK_FALSE(plan(256, 512, true));    // loads too much at each step
  CHECK_FALSE(plan(1024, 512, false));  // more blocks than run at once
  using Model = gpu::PersistentModel;
  CHECK(Model::persistent(32, 1, 64, 512, false) == Approx(2.48e-6).epsilon(0.01));
  CHECK(Model::persistent(16, 1, 64, 2048, true) == Approx(3.26e-6).epsilon(0.01));
  CHECK(Model::stepwise(64, 4 * 512 * 512) == Approx(5e-6));
}

TEST_CASE("a layer in one launch can be captured and gives the bits of an eager one",
          "[gpu][recurrent][persistent]") {
  const LayerCase c{.kind = CellKind::gru, .batch = 20, .hidden = 40};
  std::vector<Tensor> t = operands_of(c, f16);
  for (Tensor& x : t) x = x.to(kDevice);
  const NoGrad no_grad;
  const std::vector<double> eager = layer(c, t).to_vector<double>();
  Tensor captured;
  gpu::Graph graph;
  const emulator::LaunchLog log;
  graph.capture(kDevice, [&] { captured = layer(c, t); });
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    CHECK(captured.to_vector<double>() == eager);
  }
  CHECK(std::count_if(log.names.begin(), log.names.end(), [](const std::string& name) {
          return name.find("recurrent_persistent.cu") == 0;
        }) == 3);
}

TEST_CASE("the number of launches of a 16-bit layer does not depend on its steps",
          "[gpu][recurrent][persistent]") {
  const auto launches = [](std::int64_t steps) {
    const LayerCase c{.kind = CellKind::lstm, .steps = steps, .batch = 4, .hidden = 16};
    const std::vector<Tensor> operands = operands_of(c, bf16);
    const emulator::LaunchLog log;
    (void)run_layer(c, operands);
    return log.names.size();
  };
  CHECK(launches(3) == launches(20));
}
