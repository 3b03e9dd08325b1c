#include <mezzo.h>

#include <cmath>

#include "../support/catch.h"
#include "../support/throws.h"
#include "../support/values.h"

using namespace mezzo;
using amp::GradScaler;
using amp::StepResult;
using testing::kInf;

namespace {

/** One parameter under plain SGD. */
struct ScaledScalar {
  Tensor p = tensor(0.0).requires_grad_();
  optim::SGD optimizer{{p}, {.lr = 1}};

  /** Runs a backward whose unscaled gradient is g. */
  void backward(GradScaler& scaler, double g) { scaler.scale(sum(p * g)).backward(); }
};

}  // namespace

TEST_CASE("a step under GradScaler equals a plain step on unscaled gradients") {
  ScaledScalar s;
  GradScaler scaler;
  s.backward(scaler, 3);
  CHECK(s.p.grad().item<double>() == 3 * 65536);
  CHECK(scaler.step(s.optimizer) == StepResult::stepped);
  scaler.update();
  CHECK(s.p.item<double>() == -3);
  CHECK_FALSE(scaler.found_inf(s.optimizer));
}

TEST_CASE("the scaled loss is f32 (f64 for f64), in containers too") {
  GradScaler scaler({.init_scale = 4});
  CHECK(scaler.scale(tensor(3.0, {.dtype = f16})).dtype() == f32);
  CHECK(scaler.scale(tensor(3.0, {.dtype = f64})).dtype() == f64);
  CHECK_THROWS_AS(scaler.scale(tensor(3.0, {.dtype = i64})), DtypeError);
  const std::vector<Tensor> list = scaler.scale(std::vector{tensor(1.0), tensor(2.0)});
  CHECK(list[1].item<double>() == 8);
  const auto map = scaler.scale(std::map<std::string, std::vector<Tensor>>{{"a", {tensor(1.0)}}});
  CHECK(map.at("a")[0].item<double>() == 4);
  const auto [a, b] = scaler.scale(std::pair{tensor(1.0), tensor(2.0)});
  CHECK(b.item<double>() == 8);
}

TEST_CASE("gradients may be unscaled first, to clip them") {
  ScaledScalar s;
  GradScaler scaler;
  s.backward(scaler, 30);
  scaler.unscale_(s.optimizer);
  CHECK(s.p.grad().item<double>() == 30);
  optim::clip_grad_norm(s.optimizer.params(), 1);
  CHECK(scaler.step(s.optimizer) == StepResult::stepped);
  CHECK(s.p.item<double>() == Approx(-1));
}

TEST_CASE("an overflow skips the step of its optimizer and reduces the scale") {
  ScaledScalar bad, good;
  GradScaler scaler;
  bad.backward(scaler, kInf);
  good.backward(scaler, 1);
  CHECK(scaler.step(bad.optimizer) == StepResult::skipped);
  CHECK(scaler.step(good.optimizer) == StepResult::stepped);
  CHECK(scaler.found_inf(bad.optimizer));
  CHECK(scaler.get_scale() == 65536);
  scaler.update();
  CHECK(scaler.get_scale() == 32768);
  CHECK(bad.p.item<double>() == 0);
  CHECK(good.p.item<double>() == -1);
}

TEST_CASE("calls in a wrong order are refused") {
  ScaledScalar s;
  GradScaler scaler;
  CHECK_THROWS_WITH_AS_TEXT(scaler.unscale_(s.optimizer), StateError,
                            "no loss has been scaled yet");
  CHECK_THROWS_AS(scaler.step(s.optimizer), StateError);
  CHECK_THROWS_AS(scaler.update(), StateError);
  s.backward(scaler, 1);
  CHECK_THROWS_WITH_AS_TEXT(scaler.update(), StateError,
                            "neither unscale_ nor step was called since the last update; call "
                            "scaler.step(optimizer) instead of optimizer.step()");
  scaler.unscale_(s.optimizer);
  CHECK_THROWS_WITH_AS_TEXT(scaler.unscale_(s.optimizer), StateError,
                            "already since the last update");
  CHECK_THROWS_AS(GradScaler(scaler), StateError);
  scaler.step(s.optimizer);
  CHECK_THROWS_WITH_AS_TEXT(scaler.unscale_(s.optimizer), StateError,
                            "unscale_ was called after step");
  CHECK_THROWS_AS(scaler.step(s.optimizer), StateError);
  CHECK(s.p.grad().item<double>() == 1);
  scaler.update();
  CHECK_NOTHROW(GradScaler(scaler));
}

TEST_CASE("without gradients no optimizer steps and the scale is unchanged") {
  ScaledScalar s;
  GradScaler scaler({.growth_interval = 1});
  scaler.scale(tensor(1.0));
  CHECK(scaler.step(s.optimizer) == StepResult::no_grads);
  scaler.update();
  CHECK(scaler.get_scale() == 65536);
}

TEST_CASE("f16 gradients are refused by name, bf16 ones are not") {
  GradScaler scaler;
  scaler.scale(tensor(1.0));
  const Tensor a = zeros({2}).requires_grad_(), half = zeros({2}, {.dtype = f16}).requires_grad_(),
               brain = zeros({2}, {.dtype = bf16}).requires_grad_();
  for (const Tensor& p : {a, half, brain}) p.set_grad(ones_like(p));
  optim::SGD with_half({a, half}), with_brain({brain});
  CHECK_THROWS_WITH_AS_TEXT(scaler.step(with_half), DtypeError, "parameter 1 has an f16 gradient");
  CHECK(a.grad().to_vector<float>()[0] == 1);
  CHECK(scaler.step(with_brain) == StepResult::stepped);
}

TEST_CASE("the scale can be set to valid values") {
  ScaledScalar s;
  GradScaler scaler;
  s.backward(scaler, 1);
  scaler.update(8);
  CHECK(scaler.get_scale() == 8);
  for (const double bad : {0.0, -1.0, kInf, 1e300, std::nan("")})
    CHECK_THROWS_AS(scaler.update(bad), ValueError);
  CHECK_THROWS_AS(scaler.set_growth_factor(1), ValueError);
  CHECK_THROWS_AS(scaler.set_backoff_factor(1), ValueError);
  CHECK_THROWS_AS(scaler.set_growth_interval(0), ValueError);
  CHECK_THROWS_AS(GradScaler({.init_scale = 0}), ValueError);
  CHECK_THROWS_AS(GradScaler({.hysteresis = 0}), ValueError);
  CHECK_THROWS_AS(GradScaler({.min_scale = 4, .max_scale = 2}), ValueError);
  CHECK(scaler.growth_factor() == 2);
}

TEST_CASE("gradients added after unscale_ are used as they are, and count as an update") {
  ScaledScalar s;
  GradScaler scaler;
  scaler.scale(tensor(1.0));
  scaler.unscale_(s.optimizer);
  s.p.set_grad(tensor(2.0));
  CHECK(scaler.step(s.optimizer) == StepResult::stepped);
  CHECK(s.p.item<double>() == -2);
  scaler.update();
  CHECK(scaler.state_dict().at("_growth_tracker") == 1);
}

TEST_CASE("a gradient that becomes non-finite after unscale_ is not checked again") {
  ScaledScalar s;
  GradScaler scaler;
  s.backward(scaler, 1);
  scaler.unscale_(s.optimizer);
  s.p.set_grad(tensor(kInf));
  CHECK(scaler.step(s.optimizer) == StepResult::stepped);
  CHECK(s.p.item<double>() == -kInf);
  scaler.update();
  CHECK(scaler.get_scale() == 65536);
}

TEST_CASE(
    "unscaling works in place, with an overflow too, and for gradients that repeat one element") {
  GradScaler scaler({.init_scale = 4});
  scaler.scale(tensor(1.0));
  const Tensor p = zeros({3}).requires_grad_(), q = zeros({3}).requires_grad_();
  const Tensor grad = tensor({4, 8, kInf});
  p.set_grad(grad);
  q.set_grad(full({1}, 8).expand({3}));
  optim::SGD optimizer({p, q}, {.lr = 1});
  scaler.unscale_(optimizer);
  CHECK(scaler.found_inf(optimizer));
  CHECK(grad.to_vector<double>() == std::vector<double>{1, 2, kInf});
  CHECK(p.grad().is_same(grad));
  CHECK(q.grad().to_vector<double>() == std::vector<double>{2, 2, 2});
  CHECK(scaler.step(optimizer) == StepResult::skipped);
  CHECK(q.to_vector<double>() == std::vector<double>{0, 0, 0});
}

TEST_CASE("the factor is 1/scale, rounded once for f32 and kept for f64") {
  GradScaler scaler({.init_scale = 3});
  scaler.scale(tensor(1.0));
  const Tensor p = tensor(0.0).requires_grad_(), q = tensor(0.0, {.dtype = f64}).requires_grad_();
  p.set_grad(tensor(5.0));
  q.set_grad(tensor(5.0, {.dtype = f64}));
  optim::SGD optimizer({p, q});
  scaler.unscale_(optimizer);
  CHECK(p.grad().item<float>() == 5.0f * static_cast<float>(1.0 / 3));
  CHECK(q.grad().item<double>() == 5.0 * (1.0 / 3));
}

TEST_CASE("a disabled scaler does nothing") {
  ScaledScalar s;
  GradScaler scaler({.enabled = false});
  const Tensor loss = sum(s.p * 2);
  CHECK(scaler.scale(loss).is_same(loss));
  loss.backward();
  scaler.unscale_(s.optimizer);
  CHECK(scaler.step(s.optimizer) == StepResult::stepped);
  CHECK(s.p.item<double>() == -2);
  scaler.update();
  CHECK(scaler.get_scale() == 1);
  CHECK(scaler.state_dict().empty());
}

TEST_CASE("a disabled scaler accepts calls in any order, and its options are still checked") {
  ScaledScalar s;
  GradScaler scaler({.enabled = false});
  CHECK_FALSE(scaler.is_enabled());
  CHECK_NOTHROW(scaler.update());
  CHECK_NOTHROW(scaler.update(8));
  CHECK_NOTHROW(scaler.unscale_(s.optimizer));
  CHECK_NOTHROW(scaler.unscale_(s.optimizer));
  const std::vector<Tensor> losses{sum(s.p * 2), tensor(1, {.dtype = i64})};
  CHECK(scaler.scale(losses)[0].is_same(losses[0]));
  CHECK(scaler.scale(losses)[1].is_same(losses[1]));
  s.p.set_grad(tensor(kInf));
  CHECK(scaler.step(s.optimizer) == StepResult::stepped);  // no check
  CHECK(scaler.step(s.optimizer) == StepResult::stepped);
  CHECK_FALSE(scaler.found_inf(s.optimizer));
  CHECK_NOTHROW(scaler.load_state_dict({}));
  CHECK_NOTHROW(scaler.load_state_dict({{"scale", 8}}));
  CHECK(scaler.get_scale() == 1);
  CHECK(scaler.growth_factor() == 2);
  CHECK(scaler.backoff_factor() == 0.5);
  CHECK(scaler.growth_interval() == 2000);
  CHECK(scaler.events().empty());
  const GradScaler copy(scaler);
  CHECK_FALSE(copy.is_enabled());
  CHECK_THROWS_AS(scaler.set_growth_factor(1), ValueError);
  CHECK_THROWS_AS(GradScaler({.init_scale = -1, .enabled = false}), ValueError);
  CHECK_THROWS_AS(GradScaler().load_state_dict(scaler.state_dict()), ValueError);
  // Only enabled scalers refuse a session's optimizer: a disabled one calls its step().
  ScaledScalar t;
  const auto session =
      amp::initialize(amp::ModelList{}, t.optimizer, {.opt_level = "O0", .verbosity = 0});
  t.p.set_grad(tensor(1.0));
  CHECK(scaler.step(t.optimizer) == StepResult::stepped);
}

TEST_CASE("a copy of a scaler is independent and has no optimizers") {
  ScaledScalar s;
  GradScaler scaler({.init_scale = 8, .growth_interval = 3, .min_scale = 2, .hysteresis = 2});
  GradScaler never_used(scaler);
  CHECK_THROWS_AS(never_used.step(s.optimizer), StateError);
  s.backward(scaler, kInf);
  scaler.step(s.optimizer);
  scaler.update();
  GradScaler copy(scaler), assigned;
  assigned = scaler;
  for (GradScaler* other : {&copy, &assigned}) {
    CHECK(other->state_dict() == scaler.state_dict());
    s.optimizer.zero_grad();
    s.backward(*other, kInf);
    CHECK(other->step(s.optimizer) == StepResult::skipped);
    other->update();
    CHECK(other->get_scale() == 4);
  }
  CHECK(scaler.get_scale() == 8);
}

TEST_CASE("states are loaded completely or not at all") {
  GradScaler scaler;
  const auto fresh = scaler.state_dict();
  CHECK(fresh == std::map<std::string, double>{{"scale", 65536},
                                               {"growth_factor", 2},
                                               {"backoff_factor", 0.5},
                                               {"growth_interval", 2000},
                                               {"_growth_tracker", 0}});
  const auto refused = [&](const std::string& name, std::optional<double> value) {
    auto saved = fresh;
    saved["growth_factor"] = 3;
    if (value)
      saved[name] = *value;
    else
      saved.erase(name);
    CHECK_THROWS_AS(scaler.load_state_dict(saved), ValueError);
    CHECK(scaler.state_dict() == fresh);
  };
  refused("scale", {});
  refused("scale", 0);
  refused("other", 1);
  refused("growth_interval", 0.5);
  refused("_growth_tracker", -1);
  refused("backoff_factor", 2);
  CHECK_THROWS_AS(scaler.load_state_dict({}), ValueError);
}

TEST_CASE("an optimizer of a session is refused, and repeated overflow ends in DivergenceError") {
  ScaledScalar s;
  GradScaler scaler({.max_consecutive_skips = 2});
  {
    const auto session =
        amp::initialize(amp::ModelList{}, s.optimizer, {.opt_level = "O1", .verbosity = 0});
    scaler.scale(tensor(1.0));
    CHECK_THROWS_WITH_AS_TEXT(scaler.step(s.optimizer), StateError, "use amp::scale_loss");
  }
  s.p.set_grad(tensor(-kInf));
  CHECK(scaler.step(s.optimizer) == StepResult::skipped);
  scaler.update();
  CHECK_THROWS_WITH_AS_TEXT(scaler.step(s.optimizer), amp::DivergenceError,
                            "step(SGD): 2 consecutive steps skipped; got -inf at []");
}
