// Calls in a wrong order, and exceptions wherever a program may throw them: each is refused or
// propagates, and training continues with the same bits as a run without it.
#include "../support/catch.h"
#include "../support/throws.h"
#include "conv_net.h"

using namespace conv_net;
using nets::run_backward;
using nets::wave;

namespace {

/** An exception of the user's own code. */
struct Mishap : std::runtime_error {
  Mishap() : std::runtime_error("mishap") {}
};

Tensor batch() { return wave({4, 2, 6, 6}, 0.3); }
Tensor conv_loss(const ConvNet& net) {
  return cross_entropy(net(batch()), tensor({0, 1, 2, 1}, {4}, {.dtype = i64}));
}

/** Checks that the thread's state is unchanged. */
void check_thread(bool casts) {
  CHECK(grad_enabled());
  CHECK(amp::autocast::depth() == 0);
  CHECK(amp::autocast::is_enabled() == casts);
  CHECK(current_module_path().empty());
}

// ---- under a session ----------------------------------------------------------------------------

struct ConvTraining {
  explicit ConvTraining(const amp::Options& options)
      : session(amp::initialize(net, optimizer, options)), casts(options.opt_level == "O1") {}

  double step() {
    optimizer.zero_grad();
    const Tensor loss = conv_loss(net);
    amp::scale_loss(loss, optimizer, run_backward);
    REQUIRE(optimizer.step() == optim::StepResult::stepped);
    return loss.item<double>();
  }

  ConvNet net;
  optim::Adam optimizer{net.parameters(), {.lr = 0.05}};
  amp::Session session;
  bool casts;
};

struct Trouble {
  const char* name;
  void (*cause)(ConvTraining& t);
};

/** Computes gradients of another batch, which no step may use. */
void foreign_backward(ConvTraining& t, const Tensor& scaled) {
  scaled.backward();
  (conv_loss(t.net) * 3).backward();
}

const Trouble kTroubles[] = {
    {"a step without a backward",
     [](ConvTraining& t) {
       t.optimizer.zero_grad();
       CHECK_THROWS_WITH_AS_TEXT(t.optimizer.step(), StateError, "no parameter has a gradient");
     }},
    {"a scope inside a scope over one optimizer",
     [](ConvTraining& t) {
       CHECK_THROWS_WITH_AS_TEXT(amp::scale_loss(conv_loss(t.net), t.optimizer,
                                                 [&](const Tensor& scaled) {
                                                   scaled.backward();
                                                   amp::scale_loss(conv_loss(t.net), t.optimizer,
                                                                   run_backward);
                                                 }),
                                 StateError, "nested scale_loss over one optimizer");
     }},
    {"a body that throws before its backward",
     [](ConvTraining& t) {
       CHECK_THROWS_AS(
           amp::scale_loss(conv_loss(t.net), t.optimizer, [](const Tensor&) { throw Mishap(); }),
           Mishap);
     }},
    {"a body that throws after its backward",
     [](ConvTraining& t) {
       t.optimizer.zero_grad();
       CHECK_THROWS_AS(amp::scale_loss(conv_loss(t.net), t.optimizer,
                                       [&](const Tensor& scaled) {
                                         foreign_backward(t, scaled);
                                         throw Mishap();
                                       }),
                       Mishap);
       for (const Tensor& p : t.optimizer.params()) CHECK_FALSE(p.grad().defined());
     }},
    {"a scope that an exception destroys",
     [](ConvTraining& t) {
       CHECK_THROWS_AS(
           [&] {
             const auto scope = amp::scale_loss(conv_loss(t.net), t.optimizer);
             foreign_backward(t, scope.loss());
             throw Mishap();
           }(),
           Mishap);
     }},
    {"a delayed scope that throws, then a new iteration",
     [](ConvTraining& t) {
       amp::scale_loss(conv_loss(t.net), t.optimizer, {.delay_unscale = true}, run_backward);
       CHECK_THROWS_AS(amp::scale_loss(conv_loss(t.net), t.optimizer,
                                       [&](const Tensor& scaled) {
                                         foreign_backward(t, scaled);
                                         throw Mishap();
                                       }),
                       Mishap);
       CHECK_THROWS_WITH_AS_TEXT(t.optimizer.step(), StateError, "the gradients are still scaled");
     }},
    {"a step while gradients are still scaled",
     [](ConvTraining& t) {
       amp::scale_loss(conv_loss(t.net), t.optimizer, {.delay_unscale = true}, run_backward);
       CHECK_THROWS_WITH_AS_TEXT(t.optimizer.step(), StateError,
                                 "the last scale_loss delayed unscaling");
     }},
    {"a step inside a scope",
     [](ConvTraining& t) {
       CHECK_THROWS_WITH_AS_TEXT(amp::scale_loss(conv_loss(t.net), t.optimizer,
                                                 [&](const Tensor& scaled) {
                                                   scaled.backward();
                                                   t.optimizer.step();
                                                 }),
                                 StateError, "a scale_loss scope over this optimizer is open");
     }},
    {"a hook that throws in the middle of a backward",
     [](ConvTraining& t) {
       t.optimizer.zero_grad();
       const Tensor h = t.net.conv(batch().to(t.net.conv.parameters()[0].dtype()));
       register_hook(h, [](const Tensor&) -> Tensor { throw Mishap(); });
       // At that point the last layer has its gradient and the first has none.
       const Tensor loss = sum(t.net.fc(relu(t.net.bn(h)).flatten(1).slice(1, 0, 16)));
       CHECK_THROWS_AS(amp::scale_loss(loss, t.optimizer, run_backward), Mishap);
       CHECK_FALSE(t.net.fc.parameters()[0].grad().defined());
     }},
    {"a backward through a freed graph",
     [](ConvTraining& t) {
       const Tensor loss = conv_loss(t.net);
       CHECK_THROWS_AS(amp::scale_loss(loss, t.optimizer,
                                       [](const Tensor& scaled) {
                                         scaled.backward();
                                         scaled.backward();
                                       }),
                       StateError);
     }},
    {"a model that throws inside its forward",
     [](ConvTraining& t) { CHECK_THROWS_AS(t.net(ones({4, 3, 6, 6})), Error); }},
    {"an exception inside nested regions",
     [](ConvTraining& t) {
       CHECK_THROWS_AS(
           [&] {
             const amp::autocast brain({.dtype = bf16});
             matmul(ones({2, 2}), t.net.fc.parameters()[0].slice(1, 0, 2).t());
             const amp::disable_casts off;
             throw Mishap();
           }(),
           Mishap);
     }},
    {"scopes without a session",
     [](ConvTraining& t) {
       const Tensor p = zeros({2}).requires_grad_();
       optim::SGD stranger({p});
       CHECK_THROWS_AS(amp::scale_loss(conv_loss(t.net), {t.optimizer, stranger}, run_backward),
                       StateError);
       CHECK_THROWS_AS(amp::scale_loss(conv_loss(t.net), t.optimizer, {.loss_id = 7}, run_backward),
                       ValueError);
       CHECK_THROWS_AS(amp::scale_loss(Tensor{}, t.optimizer, run_backward), DtypeError);
     }},
    {"a second initialize, and a close inside a scope",
     [](ConvTraining& t) {
       CHECK_THROWS_AS(amp::initialize(t.net, t.optimizer, nets::quiet("O3")), StateError);
       ConvNet other;
       CHECK_THROWS_AS(amp::initialize({other, t.net}, nets::quiet("O3")), StateError);
       CHECK(other.fc.parameters()[0].dtype() == f32);
       CHECK_THROWS_WITH_AS_TEXT(amp::scale_loss(conv_loss(t.net), t.optimizer,
                                                 [&](const Tensor&) { t.session.close(); }),
                                 StateError, "a scale_loss scope is open");
     }},
    {"invalid states",
     [](ConvTraining& t) {
       CHECK_THROWS_AS(t.session.load_state_dict({{"loss_scaler0", {{"loss_scale", -1}}}}),
                       ValueError);
       CHECK_THROWS_AS(t.session.loss_scaler().set_loss_scale(0), ValueError);
     }},
    {"a GradScaler on a session's optimizer",
     [](ConvTraining& t) {
       amp::GradScaler scaler;
       scaler.scale(ones({}));
       CHECK_THROWS_AS(scaler.step(t.optimizer), StateError);
       CHECK_THROWS_AS(scaler.unscale_(t.optimizer), StateError);
     }},
};

amp::Options options_with_scale(const char* level, std::optional<double> scale = {}) {
  amp::Options options = nets::quiet(level);
  if (scale) options.loss_scale = *scale;
  return options;
}

const std::vector<amp::Options>& settings() {
  static const std::vector<amp::Options> all{
      options_with_scale("O0", 128.0), options_with_scale("O1"), options_with_scale("O2"),
      options_with_scale("O3", 128.0), options_with_scale("O5")};
  return all;
}

/** Returns the losses of eight steps, with `trouble` before the fifth. */
std::vector<double> losses_with(const amp::Options& options, void (*trouble)(ConvTraining&)) {
  ConvTraining t(options);
  std::vector<double> out;
  for (int i = 0; i < 8; ++i) {
    if (i == 4 && trouble) {
      const std::uint64_t before = fingerprint::of(t.optimizer);
      const double scale = t.session.loss_scaler().loss_scale();
      const auto ticks = t.session.loss_scaler().unskipped();
      trouble(t);
      check_thread(t.casts);
      CHECK(fingerprint::of(t.optimizer) == before);
      CHECK(t.session.loss_scaler().loss_scale() == scale);
      CHECK(t.session.loss_scaler().unskipped() == ticks);
    }
    out.push_back(t.step());
  }
  return out;
}

}  // namespace

TEST_CASE("after any error under a session training continues with the same bits", "[orders]") {
  for (const amp::Options& options : settings()) {
    const std::vector<double> undisturbed = losses_with(options, nullptr);
    CHECK(undisturbed.back() < undisturbed.front());
    for (const Trouble& trouble : kTroubles) {
      INFO(options.opt_level << ": " << trouble.name);
      CHECK(losses_with(options, trouble.cause) == undisturbed);
    }
  }
}

TEST_CASE(
    "a scope that throws keeps the gradients from before it, and they accumulate as without it",
    "[orders]") {
  for (const amp::Options& options : settings()) {
    INFO(options.opt_level);
    ConvTraining calm(options), shaken(options);
    const auto micro_batch = [](ConvTraining& t) {
      amp::scale_loss(conv_loss(t.net), t.optimizer, run_backward);
    };
    micro_batch(calm);
    micro_batch(calm);
    micro_batch(shaken);
    CHECK_THROWS_AS(amp::scale_loss(conv_loss(shaken.net), shaken.optimizer,
                                    [&](const Tensor& scaled) {
                                      foreign_backward(shaken, scaled);
                                      throw Mishap();
                                    }),
                    Mishap);
    micro_batch(shaken);
    calm.optimizer.step();
    shaken.optimizer.step();
    CHECK(fingerprint::of(calm.optimizer) == fingerprint::of(shaken.optimizer));
  }
}

TEST_CASE("training can continue after an overflow and after divergence", "[orders]") {
  for (const amp::Options& options : settings()) {
    INFO(options.opt_level);
    amp::Options three = options;
    three.max_consecutive_skips = 3;
    three.check_static_overflow = true;
    std::vector<double> losses;
    ConvTraining t(three);
    if (!t.session.options().dynamic() && three.opt_level == "O5")
      continue;  // covered by other settings
    const double scale = t.session.loss_scaler().loss_scale();
    for (int i = 0; i < 8; ++i) {
      if (i == 4)
        for (int k = 1; k <= 3; ++k) {
          t.optimizer.zero_grad();
          amp::scale_loss(conv_loss(t.net) * HUGE_VAL, t.optimizer, run_backward);
          if (k < 3)
            CHECK(t.optimizer.step() == optim::StepResult::skipped);
          else
            CHECK_THROWS_WITH_AS_TEXT(t.optimizer.step(), amp::DivergenceError,
                                      "3 consecutive steps skipped");
        }
      t.session.loss_scaler().set_loss_scale(scale);
      losses.push_back(t.step());
    }
    CHECK(losses == losses_with(options, nullptr));
  }
}

TEST_CASE("an error at the end of a scope drops its gradients, and the next step reports it",
          "[orders]") {
  // Only allocations can fail in the exit of a scope.
  const auto scale_and_fail = [](const Tensor& scaled) {
    scaled.backward();
    allocator_for(cpu).fail_nth(1);
  };
  const bool by_destructor = GENERATE(false, true);
  for (amp::Options options : settings()) {
    INFO(options.opt_level);
    options.check_static_overflow = true;  // without a check nothing is allocated
    ConvTraining t(options);
    if (by_destructor) {
      {
        const auto scope = amp::scale_loss(conv_loss(t.net), t.optimizer);
        scale_and_fail(scope.loss());
      }
      CHECK_THROWS_AS(t.optimizer.step(), OutOfMemory);
    } else {
      CHECK_THROWS_AS(amp::scale_loss(conv_loss(t.net), t.optimizer, scale_and_fail), OutOfMemory);
    }
    for (const Tensor& p : t.net.parameters()) CHECK_FALSE(p.grad().defined());
    CHECK_THROWS_WITH_AS_TEXT(t.optimizer.step(), StateError, "no parameter has a gradient");
    std::vector<double> losses;
    for (int i = 0; i < 8; ++i) losses.push_back(t.step());
    CHECK(losses == losses_with(options, nullptr));
  }
}

// ---- under GradScaler ---------------------------------------------------------------------------

namespace {

struct GuardTraining {
  double step() {
    optimizer.zero_grad();
    const Tensor loss = forward();
    scaler.scale(loss).backward();
    REQUIRE(scaler.step(optimizer) == optim::StepResult::stepped);
    scaler.update();
    return loss.item<double>();
  }
  Tensor forward() {
    const amp::autocast on;
    return conv_loss(net);
  }
  ConvNet net;
  optim::Adam optimizer{net.parameters(), {.lr = 0.05}};
  amp::GradScaler scaler;
};

struct GuardTrouble {
  const char* name;
  void (*cause)(GuardTraining& t);
};

const GuardTrouble kGuardTroubles[] = {
    {"unscaling twice",
     [](GuardTraining& t) {
       t.scaler.scale(t.forward()).backward();
       t.scaler.unscale_(t.optimizer);
       CHECK_THROWS_WITH_AS_TEXT(t.scaler.unscale_(t.optimizer), StateError,
                                 "already since the last update");
       t.scaler.update();
     }},
    {"an update without a step",
     [](GuardTraining& t) { CHECK_THROWS_AS(t.scaler.update(), StateError); }},
    {"a hook that throws in the middle of a backward",
     [](GuardTraining& t) {
       const Tensor h = t.net.conv(batch());
       register_hook(h, [](const Tensor&) -> Tensor { throw Mishap(); });
       CHECK_THROWS_AS(t.scaler.scale(sum(relu(t.net.bn(h)))).backward(), Mishap);
     }},
    {"an exception in a region",
     [](GuardTraining& t) {
       CHECK_THROWS_AS(
           [&] {
             const amp::autocast on;
             t.net(batch());
             const amp::autocast off({.enabled = false});
             t.net(ones({4, 5, 6, 6}));
           }(),
           Error);
     }},
    {"a step that throws is not unscaled again",
     [](GuardTraining& t) {
       // The optimizer refuses the step at first. The scale is exact, so the test shows whether the
       // gradients are divided by it once.
       struct Refuses : optim::OptimizerHooks {
         std::optional<optim::StepResult> before_step(optim::Optimizer&,
                                                      optim::FoundInf&) override {
           throw Mishap();
         }
         void after_step(optim::Optimizer&, const optim::StepResult&) override {}
         void after_zero_grad(optim::Optimizer&) override {}
         void before_add(optim::Optimizer&, std::span<optim::Slot>) override {}
         void detached(optim::Optimizer&) noexcept override {}
       };
       const Tensor p = tensor(0.0).requires_grad_();
       optim::SGD other({p}, {.lr = 1});
       t.scaler.scale(p * 3).backward();
       other.attach(std::make_shared<Refuses>());
       CHECK_THROWS_AS(t.scaler.step(other), Mishap);
       other.attach(nullptr);
       CHECK(t.scaler.step(other) == optim::StepResult::stepped);
       CHECK(p.item<double>() == -3);
       t.scaler.update();
     }},
    {"a copy in the middle of an iteration",
     [](GuardTraining& t) {
       t.scaler.scale(t.forward()).backward();
       t.scaler.unscale_(t.optimizer);
       CHECK_THROWS_WITH_AS_TEXT(amp::GradScaler(t.scaler), StateError,
                                 "in the middle of an iteration");
       amp::GradScaler another;
       CHECK_THROWS_AS(another = t.scaler, StateError);
       t.scaler.update();
     }},
    {"an invalid state",
     [](GuardTraining& t) {
       CHECK_THROWS_AS(t.scaler.load_state_dict({{"scale", 1}}), ValueError);
     }},
    {"divergence",
     [](GuardTraining& t) {
       const double scale = t.scaler.get_scale();
       for (int k = 1; k <= 50; ++k) {
         t.optimizer.zero_grad();
         t.scaler.scale(t.forward() * HUGE_VAL).backward();
         if (k < 50)
           CHECK(t.scaler.step(t.optimizer) == optim::StepResult::skipped);
         else
           CHECK_THROWS_AS(t.scaler.step(t.optimizer), amp::DivergenceError);
         t.scaler.update();
       }
       t.optimizer.zero_grad();
       CHECK(t.scaler.step(t.optimizer) == optim::StepResult::no_grads);
       t.scaler.update(scale);
     }},
};

std::vector<double> guard_losses_with(void (*trouble)(GuardTraining&)) {
  GuardTraining t;
  std::vector<double> out;
  for (int i = 0; i < 8; ++i) {
    if (i == 4 && trouble) {
      const std::uint64_t before = fingerprint::of(t.optimizer);
      const double scale = t.scaler.get_scale();
      trouble(t);
      check_thread(false);
      CHECK(fingerprint::of(t.optimizer) == before);
      CHECK(t.scaler.get_scale() == scale);
    }
    out.push_back(t.step());
  }
  return out;
}

}  // namespace

TEST_CASE("after any error under GradScaler training continues with the same bits", "[orders]") {
  const std::vector<double> undisturbed = guard_losses_with(nullptr);
  CHECK(undisturbed.back() < undisturbed.front());
  for (const GuardTrouble& trouble : kGuardTroubles) {
    INFO(trouble.name);
    CHECK(guard_losses_with(trouble.cause) == undisturbed);
  }
}

TEST_CASE("a second step is refused, and the update still counts the first", "[orders]") {
  GuardTraining t;
  t.step();
  t.optimizer.zero_grad();
  t.scaler.scale(t.forward()).backward();
  CHECK(t.scaler.step(t.optimizer) == optim::StepResult::stepped);
  const std::uint64_t before = fingerprint::of(t.optimizer);
  CHECK_THROWS_WITH_AS_TEXT(t.scaler.step(t.optimizer), StateError, "step was called already");
  CHECK_THROWS_WITH_AS_TEXT(t.scaler.unscale_(t.optimizer), StateError,
                            "unscale_ was called after step");
  CHECK(fingerprint::of(t.optimizer) == before);
  t.scaler.update();
  CHECK(t.scaler.state_dict().at("_growth_tracker") == 2);
}
