#include <mezzo.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

/** Returns the rates of the first n steps with base rate 1. */
std::vector<double> rates(const optim::LrSchedule& schedule, int n) {
  const Tensor p = zeros({1}).requires_grad_();
  optim::SGD optimizer({p}, {.lr = 1});
  optim::Scheduler scheduler(optimizer, schedule);
  std::vector<double> out;
  for (int i = 0; i < n; ++i) {
    out.push_back(optimizer.lr());
    scheduler.step();
  }
  return out;
}

}  // namespace

TEST_CASE("step, lambda and linear schedules") {
  CHECK(rates(optim::StepLR{.step_size = 2, .gamma = 0.5}, 6) ==
        std::vector<double>{1, 1, 0.5, 0.5, 0.25, 0.25});
  CHECK(rates(optim::LambdaLR{[](std::int64_t t) { return 1.0 / static_cast<double>(1 + t); }},
              4) == std::vector<double>{1, 0.5, 1.0 / 3, 0.25});
  CHECK(rates(optim::LinearLR{.start_factor = 0.5, .end_factor = 1, .total_iters = 2}, 4) ==
        std::vector<double>{0.5, 0.75, 1, 1});
  CHECK(rates([](std::int64_t t, double base) { return base + static_cast<double>(t); }, 2) ==
        std::vector<double>{1, 2});
}

TEST_CASE("the cosine schedule") {
  const std::vector<double> got = rates(optim::CosineAnnealingLR{.t_max = 4, .eta_min = 0.2}, 9);
  for (std::size_t t = 0; t < got.size(); ++t)
    CHECK(got[t] ==
          Approx(0.2 + 0.4 * (1 + std::cos(std::numbers::pi * static_cast<double>(t) / 4))));
  CHECK(got[0] == 1);
  CHECK(got[4] == Approx(0.2));
  CHECK(got[8] == Approx(1));
}

TEST_CASE("warm-up, then another schedule") {
  CHECK(rates(optim::LinearWarmup{.steps = 4}, 6) == std::vector<double>{0.25, 0.5, 0.75, 1, 1, 1});
  CHECK(rates(optim::LinearWarmup{.steps = 2, .then = optim::StepLR{.step_size = 1, .gamma = 0.5}},
              5) == std::vector<double>{0.5, 1, 1, 0.5, 0.25});
  CHECK(rates(optim::LinearWarmup{}, 2) == std::vector<double>{1, 1});
}

TEST_CASE("schedules in sequence count from their own first step") {
  const optim::SequentialLR sequence{
      {optim::StepLR{.step_size = 1, .gamma = 0.5}, optim::LinearWarmup{.steps = 2},
       optim::LambdaLR{[](std::int64_t) { return 3.0; }}},
      {2, 4}};
  CHECK(rates(sequence, 6) == std::vector<double>{1, 0.5, 0.5, 1, 3, 3});
}

TEST_CASE("every group keeps its own base rate") {
  const Tensor a = zeros({1}).requires_grad_(), b = zeros({1}).requires_grad_(),
               c = zeros({1}).requires_grad_();
  optim::Adam optimizer({{{a}, {.lr = 1}}, {{b}, {.lr = 2}}});
  optim::Scheduler scheduler(optimizer, optim::StepLR{.step_size = 1, .gamma = 0.5});
  scheduler.step();
  optimizer.add_param_group({c}, {.lr = 8});
  CHECK(scheduler.last_lr() == std::vector<double>{0.5, 1});
  scheduler.step();
  CHECK(scheduler.last_lr() == std::vector<double>{0.25, 0.5, 2});
}

TEST_CASE("a schedule is saved and resumed") {
  const Tensor p = zeros({1}).requires_grad_();
  optim::SGD optimizer({p}, {.lr = 1}), other({p}, {.lr = 5});
  optim::Scheduler scheduler(optimizer, optim::StepLR{.step_size = 2});
  for (int i = 0; i < 3; ++i) scheduler.step();
  optim::Scheduler resumed(other, optim::StepLR{.step_size = 2});
  resumed.load_state_dict(scheduler.state_dict());
  CHECK(other.lr() == optimizer.lr());
  CHECK(resumed.steps() == 3);
  optim::StateDict bad = scheduler.state_dict();
  bad.scalars["step"] = 0.5;
  CHECK_THROWS_AS(resumed.load_state_dict(bad), ValueError);
  bad = scheduler.state_dict();
  bad.scalars.erase("base_lr.0");
  CHECK_THROWS_AS(resumed.load_state_dict(bad), ValueError);
  bad = scheduler.state_dict();
  bad.scalars["base_lr.1"] = 1;
  CHECK_THROWS_AS(resumed.load_state_dict(bad), ValueError);
  CHECK(resumed.steps() == 3);
}

TEST_CASE("invalid schedules are refused") {
  const Tensor p = zeros({1}).requires_grad_();
  optim::SGD optimizer({p}, {.lr = 1});
  const auto refused = [&](auto schedule) {
    CHECK_THROWS_AS(optim::Scheduler(optimizer, schedule), ValueError);
    CHECK(optimizer.lr() == 1);
  };
  refused(optim::StepLR{.step_size = 0});
  refused(optim::CosineAnnealingLR{.t_max = 0});
  refused(optim::LambdaLR{});
  refused(optim::LrSchedule{});
  refused(optim::LinearLR{.start_factor = 0});
  refused(optim::LinearWarmup{.steps = -1});
  refused(optim::SequentialLR{{optim::StepLR{}}, {1}});
  refused(optim::SequentialLR{{optim::StepLR{}, optim::StepLR{}, optim::StepLR{}}, {2, 1}});
  refused(optim::LambdaLR{[](std::int64_t) { return -1.0; }});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused(optim::MultiStepLR{});
  refused(optim::MultiStepLR{.milestones = {3, 2}});
  refused(optim::MultiStepLR{.milestones = {1}, .gamma = nan});
  refused(optim::ExponentialLR{});
  refused(optim::ExponentialLR{.gamma = nan});
  refused(optim::PolynomialLR{.total_iters = 0});
  refused(optim::PolynomialLR{.power = nan});
  refused(optim::CosineAnnealingWarmRestarts{});
  refused(optim::CosineAnnealingWarmRestarts{.t_0 = 1, .t_mult = 0});
  refused(optim::CosineAnnealingWarmRestarts{.t_0 = 1, .eta_min = nan});
  refused(optim::OneCycleLR{.total_steps = 5});
  refused(optim::OneCycleLR{.max_lr = 1});
  refused(optim::OneCycleLR{.max_lr = 1, .total_steps = 5, .pct_start = nan});
  refused(optim::OneCycleLR{.max_lr = 1, .total_steps = 5, .max_momentum = 1});
  refused(optim::OneCycleLR{.max_lr = 1, .total_steps = 5, .div_factor = 0});
  refused(optim::CyclicLR{.max_lr = 1});
  refused(optim::CyclicLR{.base_lr = 0, .max_lr = nan});
  refused(optim::CyclicLR{.base_lr = 0, .max_lr = 1, .step_size_up = 0});
  refused(optim::CyclicLR{.base_lr = 0, .max_lr = 1, .gamma = nan});
  CHECK_THROWS_AS(optim::LrSchedule(optim::StepLR{.step_size = -1}), ValueError);
}

TEST_CASE("schedules that cycle the momentum need an optimizer that has one") {
  const Tensor p = zeros({1}).requires_grad_(), q = zeros({1}).requires_grad_();
  const optim::OneCycleLR cycle{.max_lr = 1, .total_steps = 10};
  optim::Adam adam({p}, {.lr = 3});
  const optim::Scheduler scheduler(adam, cycle);
  CHECK(adam.options().betas == std::pair(0.95, 0.999));
  CHECK(adam.lr() == Approx(1.0 / 25));
  optim::Adagrad adagrad({q}, {.lr = 3});
  CHECK_THROWS_WITH_AS_TEXT(optim::Scheduler(adagrad, cycle), ValueError,
                            "Scheduler: the optimizer has no momentum that could change; got "
                            "Adagrad; pass .cycle_momentum = false");
  CHECK(adagrad.lr() == 3);
  optim::OneCycleLR without = cycle;
  without.cycle_momentum = false;
  const optim::Scheduler alone(adagrad, without);
  CHECK(adagrad.lr() == Approx(1.0 / 25));
}

TEST_CASE("warm-ups and sequences pass on the momentum of their schedules") {
  const Tensor p = zeros({1}).requires_grad_();
  optim::SGD optimizer({p}, {.lr = 1, .momentum = 0.5});
  const optim::CyclicLR cyclic{.base_lr = 0, .max_lr = 1, .step_size_up = 2};
  optim::Scheduler scheduler(optimizer,
                             optim::SequentialLR{{optim::ExponentialLR{.gamma = 0.5},
                                                  optim::LinearWarmup{.steps = 1, .then = cyclic}},
                                                 {2}});
  std::vector<double> momenta;
  for (int t = 0; t < 6; ++t, scheduler.step()) momenta.push_back(optimizer.options().momentum);
  const std::vector<double> expected{0.5, 0.5, 0.9, 0.9, 0.85, 0.8};
  for (std::size_t t = 0; t < expected.size(); ++t) CHECK(momenta[t] == Approx(expected[t]));
}

TEST_CASE("after its last step OneCycleLR keeps the rate") {
  const std::vector<double> got = rates(optim::OneCycleLR{.max_lr = 1, .total_steps = 4}, 7);
  CHECK(got[3] == Approx(1 / 25.0 / 1e4));
  CHECK(got[6] == got[3]);
}

TEST_CASE("a metric that stays the same is no improvement for ReduceLROnPlateau") {
  using optim::PlateauMode, optim::ThresholdMode;
  for (const PlateauMode mode : {PlateauMode::min, PlateauMode::max})
    for (const ThresholdMode by : {ThresholdMode::rel, ThresholdMode::abs})
      for (const double metric : {-10.0, -0.5, 0.0, 0.5, 10.0}) {
        const Tensor a = zeros({1}).requires_grad_();
        optim::SGD optimizer({a}, {.lr = 1});
        optim::ReduceLROnPlateau schedule(
            optimizer,
            {.mode = mode, .factor = 0.5, .patience = 3, .threshold = 0.01, .threshold_mode = by});
        for (int i = 0; i < 4; ++i) schedule.step(metric);
        INFO("metric " << metric << ", lower is better: " << (mode == PlateauMode::min));
        CHECK(schedule.num_bad_epochs() == 3);
        const double better = mode == PlateauMode::min ? -1 : 1;
        schedule.step(metric + better * 0.005 * std::min(1.0, std::fabs(metric)));
        CHECK(optimizer.lr(0) == 0.5);
        schedule.step(metric + better * 2 * 0.01 * std::max(1.0, std::fabs(metric)));
        CHECK(schedule.best() != metric);
      }
}

TEST_CASE("ReduceLROnPlateau changes all groups and refuses bad options and states") {
  const Tensor a = zeros({1}).requires_grad_(), b = zeros({1}).requires_grad_();
  optim::SGD optimizer({{{a}, {.lr = 1}}, {{b}, {.lr = 4}}});
  optim::ReduceLROnPlateau schedule(optimizer, {.factor = 0.5, .patience = 0, .min_lr = 0.75});
  schedule.step(1);
  CHECK(schedule.best() == 1);
  schedule.step(1);
  CHECK(optimizer.lr(0) == 0.75);
  CHECK(optimizer.lr(1) == 2);
  const auto refused = [&](const optim::ReduceLROnPlateauOptions& options) {
    CHECK_THROWS_AS(optim::ReduceLROnPlateau(optimizer, options), ValueError);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused({.factor = 1});
  refused({.factor = nan});
  refused({.patience = -1});
  refused({.threshold = nan});
  refused({.cooldown = -1});
  refused({.min_lr = -1});
  refused({.eps = nan});
  const optim::StateDict good = schedule.state_dict();
  for (const char* key : {"best", "best_infinity", "num_bad_epochs", "cooldown_counter"}) {
    optim::StateDict bad = good;
    bad.scalars[key] = nan;
    CHECK_THROWS_AS(schedule.load_state_dict(bad), ValueError);
    bad.scalars.erase(key);
    CHECK_THROWS_AS(schedule.load_state_dict(bad), ValueError);
  }
  optim::StateDict more = good;
  more.scalars["other"] = 1;
  CHECK_THROWS_AS(schedule.load_state_dict(more), ValueError);
  CHECK(schedule.best() == 1);
}
