// Compares optimizers and schedules with stored results of PyTorch, in f64.
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "../support/catch.h"
#include "drawn.h"
#include "folder.h"

using namespace mezzo;
using namespace mezzo::optim;

namespace golden {

namespace {

constexpr std::int64_t kSteps = 20, kSize = 23, kRates = 60;  // as in training.py

const std::map<std::string, Tensor>& stored_curves() {
  static const std::map<std::string, Tensor> all = [] {
    std::map<std::string, Tensor> out;
    for (auto& [name, x] : load_tensors(str(folder(), "/training.safetensors")).tensors)
      out[name] = x;
    return out;
  }();
  return all;
}

std::set<std::string>& compared() {
  static std::set<std::string> names;
  return names;
}

void compare_curve(const std::string& name, const std::vector<double>& got,
                   double tolerance = 1e-12) {
  INFO(name);
  compared().insert(name);
  REQUIRE(stored_curves().count(name) == 1);
  const std::vector<double> wanted = stored_curves().at(name).to_vector<double>();
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("[" << i << "] is " << got[i] << ", PyTorch has " << wanted[i]);
    CHECK(std::abs(got[i] - wanted[i]) <= tolerance * (1 + std::abs(wanted[i])));
  }
}

template <class O>
void compare_optimizer(const std::string& name, typename O::Options options,
                       const Shape& shape = {kSize}) {
  const Tensor p = drawn(0, shape, f64).requires_grad_();
  O optimizer({p}, options);
  for (std::int64_t t = 0; t < kSteps; ++t) {
    p.set_grad(drawn(static_cast<std::size_t>(t) + 1, shape, f64));
    REQUIRE(optimizer.step() == StepResult::stepped);
  }
  compare_curve(name, p.to_vector<double>());
}

/** Compares trained matrices. The iteration in bf16 rounds differently where sums have another
 *  order, so that single elements differ by a few of its roundings. */
void compare_muon(const std::string& name, const Shape& shape, const MuonOptions& options) {
  INFO(name);
  const Tensor start = drawn(0, shape, f64), p = start.clone().requires_grad_();
  Muon optimizer({p}, options);
  for (std::int64_t t = 0; t < kSteps; ++t) {
    p.set_grad(drawn(static_cast<std::size_t>(t) + 1, shape, f64));
    REQUIRE(optimizer.step() == StepResult::stepped);
  }
  compared().insert(name);
  REQUIRE(stored_curves().count(name) == 1);
  const Tensor wanted = stored_curves().at(name);
  const double moved = norm(wanted - start).item();
  CHECK(moved > 0);
  CHECK(norm(p.detach() - wanted).item() <= 0.01 * moved);
}

/** As in training.py. */
Tensor residual_loss(const Tensor& first, const Tensor& second) {
  const Tensor rest =
      matmul(drawn(2, {40, kSize}, f64), cat({first.flatten(), second})) - drawn(3, {40}, f64);
  return mean(rest * rest + 0.5 * sin(rest));
}

/** Compares the losses of all steps and the parameters after them. The optimizer is replaced by one
 *  that loads its state after 7 steps. */
void compare_lbfgs(const std::string& name, const LbfgsOptions& options) {
  const Tensor first = drawn(0, {3, 5}, f64).requires_grad_(),
               second = drawn(1, {kSize - 15}, f64).requires_grad_();
  auto optimizer = std::make_unique<LBFGS>(std::vector{first, second}, options);
  const auto closure = [&] {
    optimizer->zero_grad();
    const Tensor loss = residual_loss(first, second) * (options.maximize ? -1 : 1);
    loss.backward();
    return loss;
  };
  std::vector<double> got;
  for (std::int64_t t = 0; t < kSteps; ++t) {
    got.push_back(optimizer->step(closure).item<double>());
    if (t != 6) continue;
    auto resumed = std::make_unique<LBFGS>(std::vector{first, second});
    resumed->load_state_dict(optimizer->state_dict());
    optimizer = std::move(resumed);
  }
  for (const Tensor& p : {first, second})
    for (const double value : p.to_vector<double>()) got.push_back(value);
  compare_curve(name, got, 1e-9);
}

/** Compares the rate and the momentum of each step. */
void compare_schedule(const std::string& name, const LrSchedule& schedule) {
  const Tensor p = zeros({1}).requires_grad_();
  SGD optimizer({p}, {.lr = 1, .momentum = 0.9});
  Scheduler scheduler(optimizer, schedule);
  std::vector<double> got;
  for (std::int64_t t = 0; t < kRates; ++t) {
    got.push_back(optimizer.lr());
    got.push_back(optimizer.options().momentum);
    if (t + 1 < kRates) scheduler.step();
  }
  compare_curve(name, got);
}

/** The same numbers as metrics() of training.py. */
std::vector<double> metrics() {
  const std::vector<double> noise = drawn(5, {kRates}, f64).to_vector<double>();
  std::vector<double> out;
  for (std::size_t t = 0; t < noise.size(); ++t)
    out.push_back(2 / (1 + 0.1 * static_cast<double>(t)) + 0.2 * noise[t]);
  out[20] = std::numeric_limits<double>::quiet_NaN();
  out[30] = std::numeric_limits<double>::infinity();
  return out;
}

void compare_plateau(const std::string& name, const ReduceLROnPlateauOptions& options) {
  const Tensor p = zeros({1}).requires_grad_();
  SGD optimizer({p}, {.lr = 1});
  auto schedule = std::make_unique<ReduceLROnPlateau>(optimizer, options);
  std::vector<double> got;
  for (const double metric : metrics()) {
    schedule->step(metric);
    got.push_back(optimizer.lr());
    if (got.size() % 7 == 0) {  // as a resumed training
      auto resumed = std::make_unique<ReduceLROnPlateau>(optimizer, options);
      resumed->load_state_dict(schedule->state_dict());
      schedule = std::move(resumed);
    }
  }
  compare_curve(name, got);
}

}  // namespace

TEST_CASE("optimizers train as PyTorch's") {
  compare_optimizer<SGD>("SGD maximize",
                         {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .maximize = true});
  compare_optimizer<Adam>("Adam amsgrad", {.lr = 0.1, .weight_decay = 0.1, .amsgrad = true});
  compare_optimizer<Adam>("Adam maximize", {.lr = 0.1, .maximize = true});
  compare_optimizer<AdamW>("AdamW amsgrad", {.lr = 0.1, .betas = {0.8, 0.7}, .amsgrad = true});
  compare_optimizer<AdamW>("AdamW maximize", {.lr = 0.1, .weight_decay = 0.2, .maximize = true});
  compare_optimizer<RMSprop>("RMSprop", {});
  compare_optimizer<RMSprop>("RMSprop alpha",
                             {.lr = 0.1, .alpha = 0.7, .eps = 1e-3, .weight_decay = 0.2});
  compare_optimizer<RMSprop>("RMSprop momentum", {.momentum = 0.8});
  compare_optimizer<RMSprop>("RMSprop centered", {.centered = true});
  compare_optimizer<RMSprop>(
      "RMSprop all", {.weight_decay = 0.1, .momentum = 0.5, .centered = true, .maximize = true});
  compare_optimizer<Adagrad>("Adagrad", {});
  compare_optimizer<Adagrad>("Adagrad all", {.lr = 0.3,
                                             .lr_decay = 0.2,
                                             .weight_decay = 0.1,
                                             .initial_accumulator_value = 0.5,
                                             .eps = 1e-4,
                                             .maximize = true});
  compare_optimizer<Adadelta>("Adadelta", {});
  compare_optimizer<Adadelta>(
      "Adadelta all", {.lr = 0.7, .rho = 0.8, .eps = 1e-3, .weight_decay = 0.1, .maximize = true});
  compare_optimizer<Adamax>("Adamax", {});
  compare_optimizer<Adamax>(
      "Adamax all",
      {.lr = 0.1, .betas = {0.8, 0.7}, .eps = 1e-3, .weight_decay = 0.1, .maximize = true});
  compare_optimizer<NAdam>("NAdam", {});
  compare_optimizer<NAdam>(
      "NAdam decay",
      {.lr = 0.1, .betas = {0.8, 0.7}, .eps = 1e-3, .weight_decay = 0.1, .momentum_decay = 0.1});
  compare_optimizer<NAdam>("NAdam decoupled",
                           {.weight_decay = 0.2, .decoupled_weight_decay = true, .maximize = true});
  compare_optimizer<RAdam>("RAdam", {});
  compare_optimizer<RAdam>("RAdam never rectified", {.lr = 0.1, .betas = {0.9, 0.6}});
  compare_optimizer<RAdam>("RAdam decay",
                           {.lr = 0.1, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.1});
  compare_optimizer<RAdam>("RAdam decoupled",
                           {.weight_decay = 0.2, .decoupled_weight_decay = true, .maximize = true});
}

TEST_CASE("Adafactor trains as PyTorch's") {
  AdafactorOptions all{.lr = 0.3,
                       .beta2_decay = -0.5,
                       .eps = {0.2, 0.7},
                       .d = 1.3,
                       .weight_decay = 0.1,
                       .maximize = true};
  compare_optimizer<Adafactor>("Adafactor", {}, {4, 6});
  compare_optimizer<Adafactor>("Adafactor vector", {});
  compare_optimizer<Adafactor>("Adafactor all", all, {2, 3, 5});
  all.eps.first = 0.9;
  compare_optimizer<Adafactor>("Adafactor all vector", all);
}

TEST_CASE("LBFGS minimises as PyTorch's") {
  compare_lbfgs("LBFGS", {.max_iter = 3});
  compare_lbfgs("LBFGS all", {.lr = 0.7,
                              .max_iter = 6,
                              .max_eval = 4,
                              .tolerance_grad = 1e-3,
                              .tolerance_change = 1e-4,
                              .history_size = 3});
  compare_lbfgs("LBFGS defaults", {});
  compare_lbfgs("LBFGS wolfe", {.max_iter = 2, .line_search_fn = LineSearch::strong_wolfe});
  compare_lbfgs("LBFGS wolfe all", {.lr = 20,
                                    .max_iter = 6,
                                    .max_eval = 4,
                                    .history_size = 2,
                                    .line_search_fn = LineSearch::strong_wolfe,
                                    .maximize = true});
}

TEST_CASE("schedules set the rates and momenta of PyTorch's") {
  compare_schedule("MultiStepLR", MultiStepLR{.milestones = {3, 10, 10, 40}, .gamma = 0.5});
  compare_schedule("ExponentialLR", ExponentialLR{.gamma = 0.9});
  compare_schedule("PolynomialLR", PolynomialLR{.total_iters = 30, .power = 2.5});
  compare_schedule("PolynomialLR defaults", PolynomialLR{});
  compare_schedule("CosineAnnealingWarmRestarts",
                   CosineAnnealingWarmRestarts{.t_0 = 7, .eta_min = 0.01});
  compare_schedule("CosineAnnealingWarmRestarts longer",
                   CosineAnnealingWarmRestarts{.t_0 = 5, .t_mult = 3});
  compare_schedule("OneCycleLR", OneCycleLR{.max_lr = 2, .total_steps = 60});
  compare_schedule("OneCycleLR linear", OneCycleLR{.max_lr = 2,
                                                   .total_steps = 60,
                                                   .pct_start = 0.4,
                                                   .anneal_strategy = Annealing::linear,
                                                   .base_momentum = 0.7,
                                                   .max_momentum = 0.99,
                                                   .div_factor = 10,
                                                   .final_div_factor = 100});
  compare_schedule("OneCycleLR three_phase",
                   OneCycleLR{.max_lr = 2, .total_steps = 61, .three_phase = true});
  compare_schedule("CyclicLR", CyclicLR{.base_lr = 0.1, .max_lr = 1, .step_size_up = 8});
  compare_schedule("CyclicLR triangular2", CyclicLR{.base_lr = 0.1,
                                                    .max_lr = 1,
                                                    .step_size_up = 5,
                                                    .step_size_down = 9,
                                                    .mode = CyclicMode::triangular2,
                                                    .base_momentum = 0.7});
  compare_schedule("CyclicLR exp_range", CyclicLR{.base_lr = 0.1,
                                                  .max_lr = 1,
                                                  .step_size_up = 6,
                                                  .mode = CyclicMode::exp_range,
                                                  .gamma = 0.97});
}

TEST_CASE("ReduceLROnPlateau lowers the rate when PyTorch's does") {
  compare_plateau("ReduceLROnPlateau", {.factor = 0.5, .patience = 2});
  compare_plateau("ReduceLROnPlateau max",
                  {.mode = PlateauMode::max, .patience = 1, .threshold = 0.05, .cooldown = 3});
  compare_plateau(
      "ReduceLROnPlateau abs",
      {.patience = 0, .threshold = 0.3, .threshold_mode = ThresholdMode::abs, .min_lr = 0.02});
  compare_plateau("ReduceLROnPlateau max abs", {.mode = PlateauMode::max,
                                                .patience = 1,
                                                .threshold = 0.2,
                                                .threshold_mode = ThresholdMode::abs,
                                                .eps = 0.01});
}

TEST_CASE("Muon trains as PyTorch's") {
  compare_muon("Muon", {4, 6}, {});
  compare_muon("Muon tall", {7, 3}, {.lr = 0.1, .weight_decay = 0.3});
  compare_muon("Muon heavy ball", {5, 5}, {.lr = 0.1, .momentum = 0.6, .nesterov = false});
  compare_muon("Muon rms", {4, 6},
               {.lr = 0.1,
                .ns_coefficients = {3.0, -3.2, 1.2},
                .eps = 1e-3,
                .ns_steps = 3,
                .adjust_lr_fn = MuonRate::match_rms_adamw});
}

TEST_CASE("every stored optimizer and schedule was compared") {
  for (const auto& [name, x] : stored_curves()) {
    INFO(name);
    CHECK(compared().count(name) == 1);
  }
}

}  // namespace golden
