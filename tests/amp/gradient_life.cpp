// A gradient is unscaled once, whoever holds its parameter, and lives until zero_grad: one program
// means the same at every level and under GradScaler. The expected numbers follow from lr = 0.25.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"
#include "nets.h"

using namespace nets;
using amp::StepResult;

namespace {

using Values = std::vector<double>;

/** Returns a loss whose gradient is `gradient`. */
Tensor loss_with(const Factor& net, const Values& gradient) {
  return sum(net(on_device(gradient)));
}

amp::Options fixed_options(const char* level) {
  amp::Options options = quiet(level);
  options.loss_scale = 64.0;
  return options;
}

void scope(const Factor& net, const Values& gradient, const amp::OptimizerList& optimizers,
           const amp::ScaleLossOptions& options = {}) {
  amp::scale_loss(loss_with(net, gradient), optimizers, options, run_backward);
}

/** The ways to remove a gradient, or to set it to zero. */
struct Removal {
  const char* name;
  void (*run)(const Factor& net, optim::Optimizer& optimizer);
  bool sets_to_none;
};
const Removal kRemovals[] = {
    {"optimizer.zero_grad()", [](const Factor&, optim::Optimizer& o) { o.zero_grad(); }, true},
    {"optimizer.zero_grad(false)", [](const Factor&, optim::Optimizer& o) { o.zero_grad(false); },
     false},
    {"model.zero_grad()", [](const Factor& net, optim::Optimizer&) { net.zero_grad(); }, true},
    {"model.zero_grad(false)", [](const Factor& net, optim::Optimizer&) { net.zero_grad(false); },
     false},
    {"set_grad({})", [](const Factor& net, optim::Optimizer&) { net.w.set_grad({}); }, true},
    {"grad().zero_()", [](const Factor& net, optim::Optimizer&) { net.w.grad().zero_(); }, false},
};

}  // namespace

// ---- several optimizers -------------------------------------------------------------------------

TEST_CASE("a weight of two optimizers is updated twice from one gradient", "[gradients]") {
  for (const char* level : levels::names())
    for (const bool scopes_both : {true, false}) {
      INFO(level << ", scope over " << (scopes_both ? "both" : "one"));
      const Factor net({1});
      optim::SGD a(net.parameters(), {.lr = 0.25}), b(net.parameters(), {.lr = 0.25});
      const auto session = amp::initialize(net, {a, b}, fixed_options(level));
      if (scopes_both)
        scope(net, {2}, {a, b});
      else
        scope(net, {2}, a);
      CHECK(a.step() == StepResult::stepped);
      CHECK(first_weight(a) == Values{0.5});
      CHECK(b.step() == StepResult::stepped);
      CHECK(first_weight(b) == Values{0});
    }
}

TEST_CASE("GradScaler unscales a gradient once, whichever optimizer asks", "[gradients]") {
  enum Use { steps, unscales_one, unscales_both };
  for (const Use use : {steps, unscales_one, unscales_both})
    for (const int fused : {0, 1, 2, 3}) {
      INFO("use " << use << ", fused " << fused);
      const Factor net({1});
      const auto make = [&](bool is_fused) -> std::unique_ptr<optim::Optimizer> {
        if (is_fused)
          return std::make_unique<optim::FusedSGD>(net.parameters(),
                                                   optim::FusedSgdOptions{.lr = 0.25});
        return std::make_unique<optim::SGD>(net.parameters(), optim::SgdOptions{.lr = 0.25});
      };
      const auto a = make((fused & 1) != 0), b = make((fused & 2) != 0);
      amp::GradScaler scaler({.init_scale = 1024});
      for (int i = 0; i < 3; ++i) {
        a->zero_grad();
        net.w.detach().fill_(1);
        scaler.scale(loss_with(net, {2})).backward();
        if (use != steps) scaler.unscale_(*a);
        if (use == unscales_both) scaler.unscale_(*b);
        CHECK(scaler.step(*a) == StepResult::stepped);
        scaler.step(*b);
        scaler.update();
        CHECK(values(net.w) == Values{0});
      }
    }
}

TEST_CASE("a skipped fused step leaves the shared gradient scaled for the other optimizer",
          "[gradients]") {
  const Factor net({1}), other({1});
  optim::FusedSGD a(net.parameters(), {.lr = 0.25});
  a.add_param_group(other.parameters(), {.lr = 0.25});
  optim::FusedSGD b(net.parameters(), {.lr = 0.25});
  amp::GradScaler scaler({.init_scale = 1024});
  for (const double second : {1.0, HUGE_VAL}) {
    a.zero_grad();
    net.w.detach().fill_(1);
    scaler.scale(loss_with(net, {2}) + loss_with(other, {second})).backward();
    scaler.step(a);
    scaler.step(b);
    scaler.update();
    CHECK(values(net.w) == Values{second == 1 ? 0 : 0.5});
  }
}

TEST_CASE("a tensor that is the gradient of two parameters is unscaled for each", "[gradients]") {
  for (const bool fused : {false, true}) {
    const Tensor p = on_device({1}).requires_grad_(), q = on_device({1}).requires_grad_();
    std::unique_ptr<optim::Optimizer> optimizer;
    if (fused)
      optimizer =
          std::make_unique<optim::FusedSGD>(std::vector{p, q}, optim::FusedSgdOptions{.lr = 0.25});
    else
      optimizer = std::make_unique<optim::SGD>(std::vector{p, q}, optim::SgdOptions{.lr = 0.25});
    amp::GradScaler scaler({.init_scale = 1024});
    const Tensor g = scaler.scale(on_device({2}));
    p.set_grad(g);
    q.set_grad(g);
    scaler.step(*optimizer);
    CHECK(values(p) == Values{0.5});
    CHECK(values(q) == Values{0.5});
  }
}

TEST_CASE("gradients with a graph are memory of their own", "[gradients]") {
  const Tensor p = on_device({1}).requires_grad_(), q = on_device({1}).requires_grad_();
  sum((p + q) * 2).backward({}, false, true);
  optim::clip_grad_norm({p, q}, std::sqrt(2.0));
  CHECK(values(p.grad())[0] == Approx(1));
  CHECK(values(q.grad())[0] == Approx(1));
}

// ---- several steps ------------------------------------------------------------------------------

TEST_CASE("two steps may use one gradient at every level", "[gradients]") {
  for (const char* level : levels::names()) {
    INFO(level);
    const Factor net({1});
    optim::SGD optimizer(net.parameters(), {.lr = 0.25});
    const auto session = amp::initialize(net, optimizer, fixed_options(level));
    scope(net, {2}, optimizer);
    CHECK(optimizer.step() == StepResult::stepped);
    CHECK(optimizer.step() == StepResult::stepped);
    CHECK(first_weight(optimizer) == Values{0});
  }
  {
    const Factor net({1});
    optim::FusedSGD optimizer(net.parameters(), {.lr = 0.25});
    const auto session = amp::initialize(net, optimizer, fixed_options("O2"));
    scope(net, {2}, optimizer);
    optimizer.step();
    optimizer.step();
    CHECK(first_weight(optimizer) == Values{0});
  }
  const Factor net({1});
  optim::SGD optimizer(net.parameters(), {.lr = 0.25});
  amp::GradScaler scaler({.init_scale = 1024});
  scaler.scale(loss_with(net, {2})).backward();
  for (int i = 0; i < 2; ++i) {
    scaler.step(optimizer);
    scaler.update();
  }
  CHECK(values(net.w) == Values{0});
}

TEST_CASE("without zero_grad gradients accumulate across steps at every level", "[gradients]") {
  for (const char* level : levels::names()) {
    INFO(level);
    const Factor net({1});
    optim::SGD optimizer(net.parameters(), {.lr = 0.25});
    const auto session = amp::initialize(net, optimizer, fixed_options(level));
    for (int i = 0; i < 2; ++i) {
      scope(net, {2}, optimizer);
      optimizer.step();
    }
    CHECK(first_weight(optimizer) == Values{-0.5});
  }
  const Factor net({1});
  optim::FusedSGD optimizer(net.parameters(), {.lr = 0.25});
  const auto session = amp::initialize(net, optimizer, fixed_options("O2"));
  for (int i = 0; i < 2; ++i) {
    scope(net, {2}, optimizer);
    optimizer.step();
  }
  CHECK(first_weight(optimizer) == Values{-0.5});
}

TEST_CASE("GradScaler accumulates across steps as a plain training does", "[gradients]") {
  for (const bool fused : {false, true})
    for (const bool zeros : {false, true}) {
      INFO("fused " << fused << ", zeros " << zeros);
      const Factor net({1});
      std::unique_ptr<optim::Optimizer> optimizer;
      if (fused)
        optimizer =
            std::make_unique<optim::FusedSGD>(net.parameters(), optim::FusedSgdOptions{.lr = 0.25});
      else
        optimizer = std::make_unique<optim::SGD>(net.parameters(), optim::SgdOptions{.lr = 0.25});
      amp::GradScaler scaler({.init_scale = 1024});
      Values expected{0.5, -0.5, -2};  // gradients 2, 4, 6
      if (zeros) expected = {0.5, 0, -0.5};
      for (const double after : expected) {
        if (zeros && net.w.grad().defined()) net.w.grad().zero_();
        scaler.scale(loss_with(net, {2})).backward();
        scaler.step(*optimizer);
        scaler.update();
        CHECK(values(net.w) == Values{after});
      }
    }
}

TEST_CASE("GradScaler accepts gradients of a loss that is not scaled after unscale_",
          "[gradients]") {
  const Factor net({1});
  optim::SGD optimizer(net.parameters(), {.lr = 0.25});
  amp::GradScaler scaler({.init_scale = 1024});
  scaler.scale(loss_with(net, {2})).backward();
  scaler.unscale_(optimizer);
  loss_with(net, {1}).backward();
  scaler.step(optimizer);
  CHECK(values(net.w) == Values{0.25});
}

TEST_CASE("GradScaler does not use what a backward pass added after unscale_", "[gradients]") {
  for (const bool had_gradient : {true, false})
    for (const bool adds : {true, false}) {
      INFO("had a gradient " << had_gradient << ", adds " << adds);
      const Factor net({1}), other({1});
      optim::SGD optimizer(net.parameters(), {.lr = 0.25});
      amp::GradScaler scaler({.init_scale = 1024});
      if (had_gradient) scaler.scale(loss_with(net, {2})).backward();
      if (!had_gradient) scaler.scale(loss_with(other, {2})).backward();
      scaler.unscale_(optimizer);
      if (adds) {
        scaler.scale(loss_with(net, {2})).backward();
        CHECK_THROWS_WITH_AS_TEXT(scaler.step(optimizer), StateError, "after unscale_");
        CHECK(values(net.w) == Values{1});
        continue;
      }
      // A backward pass through other weights does no harm.
      scaler.scale(loss_with(other, {2})).backward();
      if (had_gradient) optim::clip_grad_norm(net.parameters(), 1);
      scaler.step(optimizer);
      CHECK(values(net.w)[0] == Approx(had_gradient ? 0.75 : 1));
    }
}

// ---- removed gradients --------------------------------------------------------------------------

TEST_CASE("a gradient that was removed between two scopes is gone at every level", "[gradients]") {
  for (const char* level : levels::names())
    for (const Removal& removal : kRemovals)
      for (const bool steps_before : {false, true}) {
        INFO(level << ", " << removal.name << ", step before: " << steps_before);
        const Factor net({1, 2});
        optim::SGD optimizer(net.parameters(), {.lr = 0.25});
        const auto session = amp::initialize(net, optimizer, fixed_options(level));
        scope(net, {1, 2}, optimizer);
        if (steps_before) {
          optimizer.step();
          CHECK(first_weight(optimizer) == Values{0.75, 1.5});
        }
        removal.run(net, optimizer);
        scope(net, {2, -1}, optimizer);
        optimizer.step();
        CHECK(first_weight(optimizer) == (steps_before ? Values{0.25, 1.75} : Values{0.5, 2.25}));
      }
}

TEST_CASE("a step after a gradient was removed does not use it", "[gradients]") {
  for (const char* level : levels::names())
    for (const Removal& removal : kRemovals) {
      INFO(level << ", " << removal.name);
      const Factor net({1, 2});
      optim::SGD optimizer(net.parameters(), {.lr = 0.25, .weight_decay = 1});
      const auto session = amp::initialize(net, optimizer, fixed_options(level));
      scope(net, {1, 2}, optimizer);
      removal.run(net, optimizer);
      if (removal.sets_to_none) {
        CHECK_THROWS_WITH_AS_TEXT(optimizer.step(), StateError, "no parameter has a gradient");
        CHECK(first_weight(optimizer) == Values{1, 2});
      } else {
        CHECK(optimizer.step() == StepResult::stepped);
        CHECK(first_weight(optimizer) == Values{0.75, 1.5});  // by weight decay only
      }
    }
}

TEST_CASE("clipping does not see a removed gradient, and a session that ends drops it",
          "[gradients]") {
  for (const char* level : levels::names())
    for (const Removal& removal : kRemovals) {
      INFO(level << ", " << removal.name);
      const Factor net({1, 2});
      optim::SGD optimizer(net.parameters(), {.lr = 0.25});
      auto session = amp::initialize(net, optimizer, fixed_options(level));
      scope(net, {3, 4}, optimizer);
      CHECK(optim::clip_grad_norm(amp::master_params(optimizer), 100).item<double>() == 5);
      removal.run(net, optimizer);
      CHECK(optim::clip_grad_norm(amp::master_params(optimizer), 1).item<double>() == 0);
      session.close();
      const Tensor grad = net.w.grad();
      CHECK((grad.defined() ? values(grad) : Values{0, 0}) == Values{0, 0});
    }
}

TEST_CASE("writes to a scaled 16-bit gradient are refused", "[gradients]") {
  for (const char* level : {"O2", "O5"}) {
    INFO(level);
    const Factor net({1, 2});
    optim::SGD optimizer(net.parameters(), {.lr = 0.25});
    const auto session = amp::initialize(net, optimizer, fixed_options(level));
    scope(net, {1, 2}, optimizer);
    net.w.grad().mul_(0.5);
    CHECK_THROWS_WITH_AS_TEXT(optimizer.step(), StateError, "was written to");
    CHECK_THROWS_WITH_AS_TEXT(scope(net, {1, 2}, optimizer), StateError,
                              "use amp::master_params(optimizer)");
    optimizer.zero_grad();
    scope(net, {1, 2}, optimizer);
    loss_with(net, {1, 2}).backward();
    CHECK_THROWS_WITH_AS_TEXT(optimizer.step(), StateError, "backward ran outside scale_loss");
    CHECK_THROWS_WITH_AS_TEXT(scope(net, {1, 2}, optimizer), StateError,
                              "backward ran outside scale_loss");
    optimizer.zero_grad();
    const Tensor master = amp::master_params(optimizer)[0];
    master.set_grad(on_device({1, 1}));  // a gradient of the program's own
    CHECK(optimizer.step() == StepResult::stepped);
    CHECK(first_weight(optimizer) == Values{0.75, 1.75});
  }
}

// ---- delayed unscaling --------------------------------------------------------------------------

TEST_CASE("a gradient that was left scaled is not used by another optimizer", "[gradients]") {
  for (const char* level : levels::names()) {
    INFO(level);
    const Factor net({1});
    optim::SGD a(net.parameters(), {.lr = 0.25}), b(net.parameters(), {.lr = 0.25});
    optim::SGD outside(net.parameters(), {.lr = 0.25});
    const auto session = amp::initialize(net, {a, b}, fixed_options(level));
    scope(net, {2}, a, {.delay_unscale = true});
    CHECK_THROWS_WITH_AS_TEXT(a.step(), StateError, "still scaled");
    CHECK_THROWS_WITH_AS_TEXT(b.step(), StateError, "still scaled");
    CHECK_THROWS_WITH_AS_TEXT(outside.step(), StateError, "still scaled");
    CHECK_THROWS_WITH_AS_TEXT(scope(net, {2}, b), StateError, "still scaled");
    CHECK_THROWS_AS(optim::clip_grad_norm(net.parameters(), 1), StateError);
    CHECK(first_weight(a) == Values{1});
    scope(net, {2}, {b, a});
    a.step();
    b.step();
    CHECK(first_weight(a) == Values{-1});

    scope(net, {1}, {a, b}, {.delay_unscale = true});  // 5 in all, with those before
    CHECK_THROWS_WITH_AS_TEXT(scope(net, {2}, a), StateError, "still scaled");
    scope(net, {0}, {a, b});
    a.step();
    CHECK(first_weight(a) == Values{-2.25});

    scope(net, {1}, {a, b}, {.delay_unscale = true});
    net.zero_grad();
    scope(net, {1}, b);
    b.step();
    a.step();
    CHECK(first_weight(a) == Values{-2.75});
  }
}

TEST_CASE("scopes over different optimizers may be nested, unless they share a weight",
          "[gradients]") {
  for (const char* level : levels::names()) {
    INFO(level);
    const Factor one({1}), two({1});
    optim::SGD a(one.parameters(), {.lr = 0.25}), b(two.parameters(), {.lr = 0.25});
    optim::SGD shares(one.parameters(), {.lr = 0.25});
    const auto session = amp::initialize({one, two}, {a, b, shares}, fixed_options(level));
    scope(one, {2}, a);
    scope(two, {2}, b);
    amp::scale_loss(loss_with(one, {1}), a, [&](const Tensor& scaled) {
      scope(two, {1}, b);
      CHECK_THROWS_WITH_AS_TEXT(scope(one, {1}, shares), StateError, "scope is open over another");
      CHECK_THROWS_WITH_AS_TEXT(shares.step(), StateError, "scope is open over another");
      scaled.backward();
    });
    a.step();
    b.step();
    CHECK(first_weight(a) == Values{0.25});
    CHECK(first_weight(b) == Values{0.25});
  }
}

TEST_CASE("an optimizer outside the session does not use scaled 16-bit gradients", "[gradients]") {
  const Factor net({1});
  optim::SGD a(net.parameters(), {.lr = 0.25}), outside(net.parameters(), {.lr = 0.25});
  const auto session = amp::initialize(net, a, fixed_options("O2"));
  scope(net, {2}, a);
  CHECK_THROWS_WITH_AS_TEXT(outside.step(), StateError, "pass every optimizer");
  amp::GradScaler scaler({.init_scale = 1024});
  (void)scaler.scale(on_device({1}));
  CHECK_THROWS_WITH_AS_TEXT(scaler.step(outside), StateError, "pass every optimizer");
}

TEST_CASE("closing a session in a delayed sequence unscales the gradients", "[gradients]") {
  for (const char* level : levels::names())
    for (const bool destroys : {false, true}) {
      INFO(level);
      const Factor net({1, 2});
      optim::SGD optimizer(net.parameters(), {.lr = 0.25});
      {
        auto session = amp::initialize(net, optimizer, fixed_options(level));
        scope(net, {1, 2}, optimizer, {.delay_unscale = true});
        if (!destroys) session.close();
      }
      CHECK(net.w.dtype() == f32);
      optimizer.step();
      CHECK(values(net.w) == Values{0.75, 1.5});
    }
  for (const char* level : {"O1", "O2"}) {  // not those that overflowed
    const Factor net({1, 2});
    optim::SGD optimizer(net.parameters(), {.lr = 0.25});
    auto session = amp::initialize(net, optimizer, fixed_options(level));
    scope(net, {1, HUGE_VAL}, optimizer, {.delay_unscale = true});
    session.close();
    CHECK_FALSE(net.w.grad().defined());
  }
  for (const char* level : {"O1", "O2"}) {
    const Factor net({1, 2});
    optim::SGD optimizer(net.parameters(), {.lr = 0.25});
    auto session = amp::initialize(net, optimizer, quiet(level));
    scope(net, {1, HUGE_VAL}, optimizer);
    session.close();  // the next step would have been skipped
    CHECK_FALSE(net.w.grad().defined());
  }
}

TEST_CASE("closing a session unscales a shared gradient once", "[gradients]") {
  for (const char* level : levels::names()) {
    INFO(level);
    const Factor net({1, 2}), other({1});
    optim::SGD a(net.parameters(), {.lr = 0.25}), b(net.parameters(), {.lr = 0.25});
    b.add_param_group(other.parameters(), {.lr = 0.25});
    auto session = amp::initialize({net, other}, {a, b}, fixed_options(level));
    amp::scale_loss(loss_with(net, {1, 2}) + loss_with(other, {2}), {a, b}, {.delay_unscale = true},
                    run_backward);
    session.close();
    b.step();
    CHECK(values(net.w) == Values{0.75, 1.5});
    CHECK(values(other.w) == Values{0.5});
  }
}

TEST_CASE("gradients of a finished scope stay when the session is closed", "[gradients]") {
  for (const char* level : levels::names()) {
    INFO(level);
    const Factor net({1, 2});
    optim::SGD optimizer(net.parameters(), {.lr = 0.25});
    auto session = amp::initialize(net, optimizer, fixed_options(level));
    scope(net, {1, 2}, optimizer);
    optimizer.step();
    session.close();
    CHECK(values(net.w.grad()) == Values{1, 2});
    optimizer.step();
    CHECK(values(net.w) == Values{0.5, 1});
  }
}

TEST_CASE("earlier gradients survive a delayed sequence that adds nothing, or throws",
          "[gradients]") {
  for (const char* level : levels::names()) {
    INFO(level);
    const Factor net({1}), other({1});
    optim::SGD optimizer(net.parameters(), {.lr = 0.25});
    optimizer.add_param_group(other.parameters(), {.lr = 0.25});
    const auto session = amp::initialize({net, other}, optimizer, fixed_options(level));
    scope(net, {2}, optimizer);
    scope(other, {1}, optimizer, {.delay_unscale = true});
    scope(net, {1}, optimizer, {.delay_unscale = true});
    try {
      amp::scale_loss(loss_with(other, {4}), optimizer, [](const Tensor&) { throw 1; });
    } catch (int) {}
    scope(other, {1}, optimizer);
    optimizer.step();
    CHECK(first_weight(optimizer) == Values{0.25});
    CHECK(values(optimizer.params()[1]) == Values{0.5});
  }
}

// ---- clipping -----------------------------------------------------------------------------------

TEST_CASE("a weight that is listed twice is clipped once", "[gradients]") {
  const Tensor w = on_device({1, 2}).requires_grad_();
  w.set_grad(on_device({3, 4}));
  CHECK(optim::clip_grad_norm({w, w}, 1).item<double>() == 5);
  CHECK(values(w.grad())[0] == Approx(0.6));
  CHECK(values(w.grad())[1] == Approx(0.8));
  const Tensor v = on_device({1, 2}).requires_grad_();
  w.set_grad(on_device({3, 4}));
  v.set_grad(w.grad());  // one tensor
  CHECK(optim::clip_grad_norm({w, v}, 1).item<double>() == Approx(5 * std::sqrt(2)));
  CHECK(values(w.grad())[0] == Approx(3 / (5 * std::sqrt(2))));
}

// ---- what optimizers share ----------------------------------------------------------------------

TEST_CASE("a weight cannot be in optimizers of two sessions", "[gradients]") {
  for (const char* level : levels::names()) {
    INFO(level);
    const Factor net({1}), second({1});
    optim::SGD a(net.parameters(), {.lr = 0.25}), b(net.parameters(), {.lr = 0.25});
    optim::SGD c(second.parameters(), {.lr = 0.25});
    {
      auto session = amp::initialize(net, a, fixed_options(level));
      CHECK_THROWS_WITH_AS_TEXT(amp::initialize(second, b, fixed_options("O1")), StateError,
                                "a weight belongs to an optimizer of another session; got \"w\"");
      const auto other = amp::initialize(second, c, fixed_options("O1"));
      CHECK_THROWS_WITH_AS_TEXT(c.add_param_group(net.parameters(), {.lr = 0.25}), StateError,
                                "\"w\"");
      scope(net, {2}, a);
      a.step();
      CHECK(first_weight(a) == Values{0.5});
    }
    CHECK_NOTHROW(amp::initialize(net, {a, b}, fixed_options(level)));
  }
}

TEST_CASE("a state with the former option materialize_master_grads loads", "[gradients]") {
  const Factor net({1});
  optim::FusedSGD optimizer(net.parameters(), {.lr = 0.25});
  optim::StateDict saved = optimizer.state_dict();
  saved.numbers["param_groups.0.materialize_master_grads"] = 0;
  CHECK_NOTHROW(optimizer.load_state_dict(saved));
}

TEST_CASE("scalers that alternate on one optimizer count their own skips", "[gradients]") {
  for (const bool fused : {false, true}) {
    const Factor net({1});
    std::unique_ptr<optim::Optimizer> optimizer;
    if (fused)
      optimizer =
          std::make_unique<optim::FusedSGD>(net.parameters(), optim::FusedSgdOptions{.lr = 0.25});
    else
      optimizer = std::make_unique<optim::SGD>(net.parameters(), optim::SgdOptions{.lr = 0.25});
    amp::GradScaler a({.init_scale = 1024, .max_consecutive_skips = 3}),
        b({.init_scale = 4, .max_consecutive_skips = 3});
    const auto step = [&](amp::GradScaler& scaler, double gradient) {
      optimizer->zero_grad();
      scaler.scale(loss_with(net, {gradient})).backward();
      const StepResult result = scaler.step(*optimizer);
      const bool skipped = result == StepResult::skipped;
      scaler.update();
      return skipped;
    };
    for (int i = 0; i < 6; ++i) {  // a overflows at two of three iterations, b at each second
      CHECK(step(a, i % 3 == 2 ? 0 : HUGE_VAL) == (i % 3 != 2));
      CHECK(step(b, i % 2 == 1 ? 0 : HUGE_VAL) == (i % 2 == 0));
    }
    CHECK(step(b, HUGE_VAL));
    CHECK(step(a, HUGE_VAL));
    CHECK(step(b, HUGE_VAL));
    CHECK(step(a, HUGE_VAL));
    CHECK_THROWS_WITH_AS_TEXT(step(a, HUGE_VAL), amp::DivergenceError,
                              "3 consecutive steps skipped");
    CHECK_THROWS_WITH_AS_TEXT(step(b, HUGE_VAL), amp::DivergenceError,
                              "3 consecutive steps skipped");
  }
}

// ---- sums over uses -----------------------------------------------------------------------------

TEST_CASE("the gradient of a weight that is used for each token is summed in f32", "[gradients]") {
  constexpr int kTokens = 1024;
  enum Way { plain, recomputes, uncached };
  for (const DType low : {f16, bf16})
    for (const Way way : {plain, recomputes, uncached}) {
      INFO(name(low) << ", way " << way);
      const nn::Linear layer(2, 3);
      layer.to(test_device());
      const Tensor x = ones({kTokens, 2}, {.device = test_device()});
      Tensor loss;
      {
        const amp::autocast on({.dtype = low, .cache_enabled = way != uncached});
        std::vector<Tensor> outputs;
        for (int i = 0; i < kTokens; ++i) {
          const Tensor token = x.slice(0, i, i + 1);
          outputs.push_back(way == recomputes ? nn::checkpoint(layer, token) : layer(token));
        }
        loss = sum(cat(outputs).to(f32));
      }
      loss.backward();
      for (const double g : values(layer.weight().grad())) CHECK(g == kTokens);
      for (const double g : values(layer.bias().grad())) CHECK(g == kTokens);
    }
  for (const char* level : levels::names()) {
    INFO(level);
    const nn::Linear layer(2, 3);
    layer.to(test_device());
    optim::SGD optimizer(layer.parameters(), {.lr = 0});
    amp::Options options = quiet(level);
    options.loss_scale = 8.0;
    const auto session = amp::initialize(layer, optimizer, options);
    const Tensor x = ones({kTokens, 2}, {.device = test_device()});
    std::vector<Tensor> outputs;
    for (int i = 0; i < kTokens; ++i) outputs.push_back(layer(x.slice(0, i, i + 1)));
    amp::scale_loss(sum(cat(outputs).to(f32)), optimizer, run_backward);
    for (const Tensor& p : optimizer.params())
      for (const double g : values(p.grad())) CHECK(g == kTokens);
  }
}
