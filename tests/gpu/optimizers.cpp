// Optimizers on the device against the CPU: both use the same formulas, so elementwise ones give
// the same bits.
#include <mezzo.h>

#include <cmath>
#include <limits>

#include "../../optim/step/step_state.h"
#include "../../optim/updates.h"
#include "../emulator/streams.h"
#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/optimizers.h"
#include "../support/throws.h"
#include "device.h"
#include "need_device.h"

using namespace mezzo;
using testing::kDevice;

namespace {

std::vector<double> cpu_values(const Tensor& x) { return x.to(cpu).to_vector<double>(); }

std::vector<Tensor> leaves(Device device, DType dtype) {
  std::vector<Tensor> out;
  manual_seed(5);
  for (const std::int64_t n : {3, 4096, 4097, 70001, 0})
    out.push_back(randn({n}).to(dtype).to(device).requires_grad_());
  return out;
}

/** Trains with random gradients; returns parameters and state. */
std::vector<std::vector<double>> trained_parameters(const optimizers::Factory& make, Device device,
                                                    DType dtype) {
  const std::vector<Tensor> params = leaves(device, dtype);
  const auto optimizer = make(params);
  manual_seed(7);
  for (int step = 0; step < 4; ++step) {
    for (const Tensor& p : params) p.set_grad(randn(p.shape()).to(dtype).to(device));
    optimizer->step();
  }
  std::vector<std::vector<double>> out;
  for (const optim::Slot& slot : optimizer->slots(0)) {
    out.push_back(cpu_values(slot.param));
    for (const Tensor& state : slot.state)
      if (state.defined()) out.push_back(cpu_values(state));
  }
  return out;
}

}  // namespace

TEST_CASE("optimizers agree on the device and on the CPU", "[gpu][optim]") {
  NEED_DEVICE();
  const DType dtype = GENERATE(f32, f16, bf16, f64);
  for (const optimizers::Kind& kind : optimizers::kinds()) {
    INFO(kind.name << " " << str(dtype, ""));
    const auto there = trained_parameters(kind.make, kDevice, dtype),
               here = trained_parameters(kind.make, cpu, dtype);
    REQUIRE(there.size() == here.size());
    // Norms are summed in another order on the device.
    const double tolerance = kind.measures_norms ? 1e-6 : 0;
    double worst = 0;
    for (std::size_t i = 0; i < here.size(); ++i)
      for (std::size_t k = 0; k < here[i].size(); ++k)
        worst = std::max(worst, std::fabs(there[i][k] - here[i][k]) / (1 + std::fabs(here[i][k])));
    CHECK(worst <= (dtype == f16 || dtype == bf16 ? tolerance * 1e4 : tolerance));
  }
}

TEST_CASE("Adafactor trains matrices in captured steps as outside of them", "[gpu][optim]") {
  NEED_DEVICE();
  const auto train = [](Device device, bool capture) {
    manual_seed(5);
    const nn::Linear model(6, 4);
    model.to(device);
    optim::Adafactor optimizer(model.parameters(), {.lr = 0.05, .weight_decay = 0.1});
    gpu::CapturedStep::Function step = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      optimizer.zero_grad();
      const Tensor loss = mse_loss(model(in[0]), in[1]);
      loss.backward();
      optimizer.step();
      return {loss};
    };
    gpu::CapturedStep captured(step, {device});
    for (int i = 0; i < 6; ++i) {
      const std::vector<Tensor> in{randn({8, 6}).to(device), randn({8, 4}).to(device)};
      if (capture)
        (void)captured(in);
      else
        (void)step(in);
    }
    CHECK(captured.captures() == (capture ? 1 : 0));
    std::vector<double> out;
    for (const auto& [name, x] : optimizer.state_dict().tensors)
      for (const double v : cpu_values(x)) out.push_back(v);
    for (const Tensor& p : model.parameters())
      for (const double v : cpu_values(p.detach())) out.push_back(v);
    return out;
  };
  const std::vector<double> eager = train(kDevice, false), here = train(cpu, false);
  CHECK(train(kDevice, true) == eager);
  REQUIRE(eager.size() == here.size());
  REQUIRE(eager.size() == 4 + 6 + 4 + 4 * 6 + 4);
  for (std::size_t i = 0; i < here.size(); ++i) CHECK(eager[i] == Approx(here[i]).margin(1e-5));
}

TEST_CASE("Adafactor trains matrices and stacks of them as on the CPU", "[gpu][optim]") {
  NEED_DEVICE();
  const DType dtype = GENERATE(f32, f16, bf16, f64);
  const auto train = [&](Device device) {
    manual_seed(5);
    std::vector<Tensor> params;
    for (const Shape& shape :
         {Shape{64, 48}, Shape{3, 40, 24}, Shape{17, 9}, Shape{1, 8}, Shape{5}, Shape{6, 4, 8, 8}})
      params.push_back(randn(shape).to(dtype).to(device).requires_grad_());
    params.push_back(params[0].detach().t().clone().t().requires_grad_());  // another layout
    optim::Adafactor optimizer(params, {.lr = 0.05, .weight_decay = 0.1});
    for (int step = 0; step < 3; ++step) {
      for (const Tensor& p : params) p.set_grad(randn(p.shape()).to(dtype).to(device));
      optimizer.step();
    }
    std::vector<std::vector<double>> out;
    for (const Tensor& p : params) out.push_back(cpu_values(p));
    return out;
  };
  const auto there = train(kDevice), here = train(cpu);
  const double margin = dtype == f64 ? 1e-9 : dtype == f32 ? 1e-5 : dtype == f16 ? 3e-3 : 3e-2;
  for (std::size_t i = 0; i < here.size(); ++i)
    for (std::size_t k = 0; k < here[i].size(); ++k)
      CHECK(there[i][k] == Approx(here[i][k]).margin(margin));
}

TEST_CASE("the norms that LAMB's update computes have the bits of norms()", "[gpu][optim]") {
  NEED_DEVICE();
  for (const DType dtype : {f32, f16, bf16, f64}) {
    INFO(name(dtype));
    manual_seed(6);
    std::vector<optim::TensorTuple> tensors;
    std::vector<optim::LambSettings> settings;
    const Tensor global = full({}, 3.0, {.dtype = f64, .device = kDevice});
    // An UpdateCounter without corrections, at its first step.
    static_assert(sizeof(optim::UpdateCounter) == 5 * sizeof(double));
    const Tensor counter = tensor({0., 0, 1, 1, 0}, {5}, {.dtype = f64, .device = kDevice});
    // More tensors than a short list has, of two modes.
    for (int i = 0; i < 60; ++i) {
      const Shape shape{i % 7 == 3 ? 0 : 1 + i * i * 4};
      const auto drawn = [&](DType type) { return randn(shape).to(type).to(kDevice); };
      const DType states = dtype == f64 ? f64 : f32;
      tensors.push_back(
          {drawn(dtype), drawn(dtype), {}, drawn(states), abs(drawn(states)), drawn(states)});
      settings.emplace_back();
      settings.back().weight_decay = i % 2 == 0 ? 0.01 : 0;
      settings.back().global_norm = global.data<double>();
      settings.back().time.counter = static_cast<const optim::UpdateCounter*>(counter.raw_data());
    }
    std::vector<Tensor> lists;
    for (const std::size_t list : {std::size_t{optim::kParam}, std::size_t{optim::kState + 2}})
      for (const optim::TensorTuple& t : tensors) lists.push_back(t[list]);
    optim::UpdateCall call;
    const auto [got, measure] = optim::prepared_norms(lists, &call);
    CHECK((call.norms.each != nullptr) == (dtype != f64));
    optim::run_update(optim::update_row<optim::LambDirectionUpdate>, tensors, settings.data(),
                      call);
    measure();
    CHECK(cpu_values(got.each) == cpu_values(optim::norms(lists).each));
  }
}

TEST_CASE("LBFGS is refused in a captured step", "[gpu][optim]") {
  NEED_DEVICE();
  const nn::Linear model(3, 1);
  model.to(kDevice);
  optim::LBFGS optimizer(model.parameters(), {.max_iter = 4});
  const Tensor x = ones({2, 3}, {.device = kDevice});
  const auto closure = [&] {
    optimizer.zero_grad();
    const Tensor loss = mean(square(model(x) - 1));
    loss.backward();
    return loss;
  };
  const double before = optimizer.step(closure).item();
  CHECK_THROWS_WITH_AS_TEXT(gpu::Graph{}.capture(kDevice, [&] { optimizer.step(closure); }),
                            StateError, "LBFGS.step: takes a closure, and cannot be captured");
  CHECK(optimizer.step(closure).item() < before);
}

TEST_CASE("lists that exceed the arguments of a launch are processed whole", "[gpu][optim]") {
  NEED_DEVICE();
  manual_seed(3);
  for (const int count : {60, 500}) {
    INFO(count << " tensors");
    std::vector<Tensor> host, device;
    std::vector<optim::AxpbyTensors> items, sums;
    for (int i = 0; i < count; ++i) {
      host.push_back(randn({1 + i % 7}).to(i % 3 == 1 ? f16 : f32));
      device.push_back(host.back().to(kDevice));
      items.push_back({device.back(), {}, {}, static_cast<std::uint32_t>(i)});
      sums.push_back({device.back(), {}, empty_like(device.back()), 0});
    }
    auto found = optim::FoundInf::reset_on(kDevice);
    optim::check_finite(items, found);
    CHECK(found.location() == optim::kAllFinite);
    optim::axpby(sums, 2, 0);
    for (int i = 0; i < count; i += 53)
      CHECK(cpu_values(sums[static_cast<std::size_t>(i)].out) ==
            cpu_values(host[static_cast<std::size_t>(i)] * 2));
    const auto expected = optim::norms(host), got = optim::norms(device);
    const std::vector<double> each = cpu_values(got.each), wanted = cpu_values(expected.each);
    for (std::size_t i = 0; i < wanted.size(); ++i) CHECK(each[i] == Approx(wanted[i]));
    CHECK(got.total.item<double>() == Approx(expected.total.item<double>()));
    for (const int bad : {count - 1, count / 2, 0}) {
      device[static_cast<std::size_t>(bad)].fill_(HUGE_VAL);
      optim::check_finite(items, found);
      CHECK(optim::number_of(found.location()) == static_cast<std::uint32_t>(bad));
    }
  }
}

TEST_CASE("list arithmetic on the device: axpby and its flag, per-tensor and global norms",
          "[gpu][optim]") {
  NEED_DEVICE();
  manual_seed(3);
  const Tensor x = randn({5000}), y = randn({5000}), h = randn({9000}).to(f16),
               flag = zeros({}, {.device = kDevice});
  const Tensor dx = x.to(kDevice), dy = y.to(kDevice), dh = h.to(kDevice),
               out = zeros({5000}, {.device = kDevice});
  const optim::AxpbyTensors item{dx, dy, out};
  const auto found = optim::FoundInf::reset_on(kDevice);
  optim::axpby({&item, 1}, 0.5, -2, found);
  CHECK(cpu_values(out) == cpu_values(0.5 * x + y * -2.0));
  CHECK_FALSE(found.raised());
  const auto expected = optim::norms(std::vector{x, h, zeros({0})}, {.inv_scale = 0.25});
  const auto got = optim::norms(std::vector{dx, dh, zeros({0}, {.device = kDevice})},
                                {.inv_scale = 0.25, .found_inf = flag});
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(cpu_values(got.each)[i] == Approx(cpu_values(expected.each)[i]).epsilon(1e-12));
  CHECK(cpu_values(got.total)[0] == Approx(cpu_values(expected.total)[0]).epsilon(1e-12));
  CHECK(flag.item<float>() == 0);
  dx.select(0, 4321).fill_(std::numeric_limits<double>::infinity());
  optim::check_finite(std::vector<optim::AxpbyTensors>{{dh, {}, {}, 3}, {dx, {}, {}, 7}}, found);
  CHECK(found.raised());
  const optim::NonfiniteWord bad = found.location();
  CHECK((optim::number_of(bad) == 7 && optim::element_of(bad) == 4321 &&
         optim::value_of(bad) == HUGE_VAL));
  (void)optim::norms(std::vector{dh, dx}, {.found_inf = flag});
  CHECK(flag.item<float>() == 1);
}

TEST_CASE("norms whose powers leave the range of f64 on the device", "[gpu][optim]") {
  NEED_DEVICE();
  struct Case {
    DType dtype;
    double size, p;
  };
  const Case cases[] = {{f32, 5e37, 9},   {f32, 1e-40, 9},  {bf16, 1e-37, 12}, {f64, 1e200, 2},
                        {f64, 1e-200, 2}, {f64, 1e-310, 3}, {f64, 1e300, 0.5}};
  for (const Case& c : cases)
    for (const double beside : {0.0, 1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
      INFO(name(c.dtype) << " " << c.size << ", order " << c.p << ", beside " << beside);
      const Tensor x = ones({70001}, c.dtype), y = full({5}, 3 * c.size, c.dtype);
      x.mul_(c.size * 0.5);
      x.select(0, 70000).fill_(4 * c.size);
      const std::vector<Tensor> host{x, zeros({9000}, c.dtype), full({3}, beside, c.dtype), y};
      std::vector<Tensor> device;
      for (const Tensor& t : host) device.push_back(t.to(kDevice));
      const auto expected = optim::norms(host, {.p = c.p});
      const auto got = optim::norms(device, {.p = c.p});
      const auto check = [](double a, double b) {
        CHECK((a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= 1e-10 * b));
      };
      for (std::size_t i = 0; i < host.size(); ++i)
        check(cpu_values(got.each)[i], cpu_values(expected.each)[i]);
      check(cpu_values(got.total)[0], cpu_values(expected.total)[0]);
      CHECK(cpu_values(got.each)[3] == Approx(3 * c.size * std::pow(5, 1 / c.p)).epsilon(1e-2));
    }
}

TEST_CASE("gradients whose norm only f64 holds are clipped on the device", "[gpu][optim]") {
  NEED_DEVICE();
  const Tensor p = zeros({2}, {.device = kDevice}).requires_grad_();
  p.set_grad(tensor({3e38, -3e38}).to(kDevice));
  CHECK(std::isinf(optim::clip_grad_norm({p}, 1).item<double>()));
  CHECK(cpu_values(p.grad())[0] == Approx(std::sqrt(0.5)).epsilon(1e-5));
  CHECK(cpu_values(p.grad())[1] == Approx(-std::sqrt(0.5)).epsilon(1e-5));
}

TEST_CASE("sessions train the same on the device and on the CPU", "[gpu][amp]") {
  NEED_DEVICE();
  const std::string level = GENERATE(from_range(levels::names()));
  INFO(level);
  const auto train = [&](Device device) {
    manual_seed(1);
    nn::Linear first{6, 8}, second{8, 3};
    for (const nn::Module& m : {static_cast<nn::Module>(first), static_cast<nn::Module>(second)})
      m.to(device);
    std::vector<Tensor> params = first.parameters();
    for (const Tensor& p : second.parameters()) params.push_back(p);
    optim::FusedAdam optimizer(params, {.lr = 0.01});
    const auto session =
        amp::initialize(std::tie(first, second), optimizer, {.opt_level = level, .verbosity = 0});
    const Tensor x = rand({5, 6}).to(device), y = rand({5, 3}).to(device);
    std::vector<double> losses;
    for (int i = 0; i < 6; ++i) {
      optimizer.zero_grad();
      const Tensor loss = mse_loss(second(tanh(first(x))), y);
      amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
      optimizer.step();
      losses.push_back(loss.item<double>());
    }
    return losses;
  };
  const std::vector<double> there = train(kDevice), here = train(cpu);
  for (std::size_t i = 0; i < here.size(); ++i)
    CHECK(there[i] == Approx(here[i]).epsilon(level == "O0" ? 1e-5 : 2e-2));
  CHECK(here.back() < here.front());
}

namespace {

/** Overflows after a number of good steps. Returns the number of steps from the one that reached
 *  the limit of consecutive skips to the one that threw DivergenceError; 300 if none threw. */
std::int64_t delay_of_divergence(int good_steps) {
  constexpr int kLimit = 4;
  const Tensor p = ones({2}, {.device = kDevice}).requires_grad_();
  optim::FusedAdam optimizer({p}, {.lr = 0.1});
  amp::GradScaler scaler({.max_consecutive_skips = kLimit});
  const auto step = [&](double factor) {
    optimizer.zero_grad();
    scaler.scale(sum(p * factor)).backward();
    scaler.step(optimizer);
    scaler.update();
  };
  for (int i = 0; i < good_steps; ++i) step(1);
  for (int skips = 1; skips < kLimit + 300; ++skips) try {
      step(std::numeric_limits<double>::infinity());
    } catch (const amp::DivergenceError&) {
      return skips - kLimit;
    }
  return 300;
}

}  // namespace

TEST_CASE("a divergence is reported within 100 steps, however late the device is",
          "[gpu][optim][amp]") {
  NEED_DEVICE();
  constexpr std::int64_t kPollSteps = optim::StepState::kPollSteps;
  static_assert(2 * kPollSteps <= 100);
  // The first step is taken by the host: it is not one of those after which poll() is called.
  for (const int good_steps : {1, 20, 46, 47, 48, 96, 97}) {
    INFO(good_steps);
    const emulator::LateWork late;
    const std::int64_t delay = delay_of_divergence(good_steps);
    CHECK(delay < 2 * kPollSteps);
    if (!emulator::LateWork::is_wanted()) continue;  // a real device
    // The record is read in the next step that is a multiple of kPollSteps, and waited for
    // kPollSteps later.
    const std::int64_t diverged = good_steps - 1 + 4;
    const std::int64_t read = (diverged + kPollSteps - 1) / kPollSteps * kPollSteps;
    CHECK(delay == read + kPollSteps - diverged);
  }
}
