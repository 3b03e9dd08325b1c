// Overflows on one rank or only in the sum: all ranks skip the step, and say where it was.
#include "../support/levels.h"
#include "weighted.h"

using namespace trainees;
using optim::StepResult;

namespace {

/** Writes a number into a gradient of the passes of its lifetime. */
class Spoiled {
 public:
  Spoiled(const Tensor& leaf, std::int64_t element, double value)
      : hook_(register_hook(leaf, [=](const Tensor& gradient) {
          const Tensor spoiled = gradient.clone();
          spoiled.as_strided({spoiled.numel()}, {1}).select(0, element).fill_(value);
          return spoiled;
        })) {}
  ~Spoiled() { hook_.remove(); }
  Spoiled(const Spoiled&) = delete;
  Spoiled& operator=(const Spoiled&) = delete;

 private:
  HookHandle hook_;
};

amp::Options checked(const std::string& level) {
  amp::Options options = quiet(level);
  options.loss_scale = "dynamic";
  return options;
}

/** The text of the latest overflow of a session; empty if the latest event is another one. */
std::string overflow_text(amp::LossScaler& scaler) {
  const std::vector<amp::ScaleEvent> events = scaler.events();
  if (events.empty() || events.back().reason != amp::ScaleReason::overflow) return "none";
  return events.back().first_nonfinite;
}

/** Returns "[1, 2]", the place of an element in a tensor. */
std::string place_of(const Shape& shape, std::int64_t element) {
  if (shape.rank() == 1) return str(Shape{element});
  return str(Shape{element / shape[1], element % shape[1]});
}

/** A net with an optimizer and a session, wrapped. */
struct Training {
  explicit Training(const amp::Options& amp_options, Options options = {})
      : trainee(make("mlp", 1)),
        optimizer(make_optimizer("SGD", trainee.module)),
        session(amp::initialize(trainee.module, *optimizer, amp_options)) {
    options.comm = ranks();
    net.emplace(trainee.module, options);
  }

  void scope(const amp::ScaleLossOptions& options = {}) {
    amp::scale_loss(trainee.loss(number++ * 8 + static_cast<std::uint64_t>(rank())), *optimizer,
                    options, [](const Tensor& loss) { loss.backward(); });
  }
  StepResult step() {
    optimizer->zero_grad();
    scope();
    return optimizer->step();
  }
  std::string state_difference() {
    states::State state;
    add_state(state, trainee.module, *optimizer, session);
    return difference_between_ranks(state);
  }

  Trainee trainee;
  MadeOptimizer optimizer;
  amp::Session session;
  std::optional<nn::DistributedDataParallel<nn::Module>> net;
  std::uint64_t number = 0;
};

}  // namespace

TEST_CASE("an overflow of one rank, in any bucket, skips the step of all and is located") {
  if (size() == 1) return;
  for (const char* level : levels::names())
    for (const nn::ReduceDtype dtype : {nn::ReduceDtype::automatic, nn::ReduceDtype::f32}) {
      Training training(checked(level), {.first_bucket_mib = 1e-9, .reduce_dtype = dtype});
      int where = 0;
      for (const nn::NamedTensor& p : training.trainee.module.named_parameters())
        for (const double value : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
          INFO(level << ", " << static_cast<int>(dtype) << ", " << p.name << ", " << value);
          const std::int64_t element = where % p.tensor.numel();
          const int bad_rank = 1 + where++ % (size() - 1);
          const double scale = training.session.loss_scaler().loss_scale();
          {
            std::optional<Spoiled> spoiled;
            if (rank() == bad_rank) spoiled.emplace(p.tensor, element, value);
            CHECK(training.step() == StepResult::skipped);
          }
          CHECK(training.session.loss_scaler().loss_scale() == scale / 2);
          const char* const number = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
          CHECK(overflow_text(training.session.loss_scaler()) ==
                str(number, " at ", place_of(p.tensor.shape(), element), " of ", p.name,
                    ", first on rank ", bad_rank));
          CHECK(training.step() == StepResult::stepped);
          training.session.loss_scaler().set_loss_scale(scale);
        }
      CHECK(training.state_difference() == "");
    }
}

TEST_CASE("events name the first of several overflows and its rank") {
  if (size() == 1) return;
  Training training(checked("O2"));
  const std::vector<nn::NamedTensor> params = training.trainee.module.named_parameters();
  {
    // rank 0: NaN in the last parameter; the others: infinity in the first
    const Spoiled spoiled(rank() == 0 ? params.back().tensor : params.front().tensor, 1,
                          rank() == 0 ? std::nan("") : HUGE_VAL);
    CHECK(training.step() == StepResult::skipped);
  }
  CHECK(overflow_text(training.session.loss_scaler()) ==
        str("inf at [0,1] of ", params.front().name, ", first on rank 0"));
  {
    // infinities that cancel
    const Spoiled spoiled(params[0].tensor, 1, rank() == 0 ? HUGE_VAL : -HUGE_VAL);
    CHECK(training.step() == StepResult::skipped);
  }
  CHECK(overflow_text(training.session.loss_scaler()) ==
        str("nan at [0,1] of ", params.front().name, ", first on rank 0"));
  CHECK(training.state_difference() == "");
}

TEST_CASE("events say if only the sum overflows") {
  if (size() == 1) return;
  struct Case {
    const char* level;
    nn::ReduceDtype dtype;
    std::optional<double> predivide;
    bool overflows;
  };
  const std::vector<Case> cases{
      {"O2", nn::ReduceDtype::automatic, {}, true},
      {"O2", nn::ReduceDtype::same, {}, true},
      {"O2", nn::ReduceDtype::automatic, 8, false},
      {"O2", nn::ReduceDtype::f32, {}, false},
      {"O3", nn::ReduceDtype::same, {}, true},
      {"O3", nn::ReduceDtype::automatic, 1, false},  // the average is rounded, not the sum
      {"O3", nn::ReduceDtype::f32, {}, false},
  };
  for (const Case& one : cases)
    for (const bool local : {false, true}) {
      INFO(one.level << ", " << static_cast<int>(one.dtype) << ", predivided by "
                     << one.predivide.value_or(0) << ", local " << local);
      const Weighted model(std::vector<Shape>{{3}, {2}});
      optim::SGD optimizer(model.parameters(), {.lr = 1e-5});
      auto session = amp::initialize(model, optimizer, checked(one.level));
      const Wrapped net(
          model, {.comm = ranks(), .reduce_dtype = one.dtype, .predivide_factor = one.predivide});
      const auto scope = [&](bool delays) {
        amp::scale_loss(model.loss({1, 20'000}), optimizer, {.delay_unscale = delays},
                        [](const Tensor& loss) { loss.backward(); });
      };
      session.loss_scaler().set_loss_scale(1);
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        {
          const auto hold = net.no_sync();
          scope(true);
        }
        if (local) {
          const auto hold = net.no_sync();
          scope(true);
        }
        // 40 000 (with `local`: 60 000) from each rank
        scope(false);
        const double scale = session.loss_scaler().loss_scale();
        const bool skips = optimizer.step() == StepResult::skipped;
        CHECK(skips == (step == 0 && one.overflows));
        if (skips) {
          CHECK(scale == 0.5);
          CHECK(overflow_text(session.loss_scaler()) ==
                "inf at [0] of p1, on no rank alone: in the sum");
        }
        session.loss_scaler().set_loss_scale(0.25);
      }
    }
}

TEST_CASE("an overflow of a delayed micro-batch is found at the last one and located") {
  if (size() == 1) return;
  for (const char* level : {"O1", "O2"})
    for (const bool is_local : {true, false})
      for (int bad_batch = 0; bad_batch < 3; ++bad_batch) {
        INFO(level << ", local " << is_local << ", micro-batch " << bad_batch);
        Training training(checked(level));
        const std::vector<nn::NamedTensor> params = training.trainee.module.named_parameters();
        training.optimizer->zero_grad();
        for (int i = 0; i < 3; ++i) {
          std::optional<nn::NoSync> local;
          if (is_local && i < 2) local.emplace(training.net->no_sync());
          std::optional<Spoiled> spoiled;
          if (i == bad_batch && rank() == 1) spoiled.emplace(params[2].tensor, 3, HUGE_VAL);
          training.scope({.delay_unscale = i < 2});
        }
        CHECK(training.optimizer->step() == StepResult::skipped);
        CHECK(overflow_text(training.session.loss_scaler()) ==
              str("inf at [0,3] of ", params[2].name, ", first on rank 1"));
        CHECK(training.step() == StepResult::stepped);
        CHECK(training.state_difference() == "");
      }
}

TEST_CASE("a static scale skips on all ranks if overflows are checked") {
  if (size() == 1) return;
  for (const char* level : levels::names()) {
    amp::Options options = quiet(level);
    options.loss_scale = 128.0;
    options.check_static_overflow = true;
    Training training(options);
    {
      std::optional<Spoiled> spoiled;
      if (rank() == 1) spoiled.emplace(training.trainee.module.parameters()[0], 0, HUGE_VAL);
      CHECK(training.step() == StepResult::skipped);
    }
    CHECK(training.step() == StepResult::stepped);
    CHECK(training.state_difference() == "");
  }
}

TEST_CASE("too many skips are a DivergenceError on all ranks") {
  if (size() == 1) return;
  amp::Options options = checked("O1");
  options.max_consecutive_skips = 3;
  Training training(options);
  std::optional<Spoiled> spoiled;
  if (rank() == 1) spoiled.emplace(training.trainee.module.parameters()[0], 0, HUGE_VAL);
  CHECK(training.step() == StepResult::skipped);
  CHECK(training.step() == StepResult::skipped);
  CHECK_THROWS_WITH_AS_TEXT(training.step(), amp::DivergenceError,
                            "step(optimizer 0): 3 consecutive steps skipped; got inf at [0,0] of "
                            "fc1.weight (first non-finite gradient), loss scale 8192");
  spoiled.reset();
  CHECK(training.step() == StepResult::stepped);
  CHECK(training.state_difference() == "");
}

TEST_CASE("an overflow in the gradients of a second wrapper is located") {
  if (size() == 1) return;
  for (const bool in_sum : {false, true}) {
    const Weighted a(std::vector<Shape>{{4}}), b(std::vector<Shape>{{3}});
    optim::SGD optimizer_a(a.parameters(), {.lr = 0.5}), optimizer_b(b.parameters(), {.lr = 0.5});
    auto session = amp::initialize({a, b}, {optimizer_a, optimizer_b}, checked("O2"));
    session.loss_scaler().set_loss_scale(1);
    const Wrapped net_a(a, {.comm = ranks()}), net_b(b, {.comm = ranks()});
    const auto pass = [&](double factor, const amp::OptimizerList& optimizers) {
      optimizer_a.zero_grad();
      optimizer_b.zero_grad();
      const Tensor loss = b.loss({factor}) + a.loss({1});
      amp::scale_loss(loss, optimizers, [](const Tensor& scaled) { scaled.backward(); });
    };
    {
      std::optional<Spoiled> spoiled;
      if (rank() == 1 && !in_sum) spoiled.emplace(b.params[0], 2, -HUGE_VAL);
      pass(in_sum ? 40'000 : 1, {optimizer_a, optimizer_b});
    }
    CHECK(overflow_text(session.loss_scaler()) ==
          (in_sum ? "inf at [0] of p0, on no rank alone: in the sum"
                  : "-inf at [2] of p0, first on rank 1"));
    CHECK(optimizer_a.step() == StepResult::skipped);
    CHECK(optimizer_b.step() == StepResult::skipped);
    // The next pass begins anew.
    session.loss_scaler().set_loss_scale(1);
    pass(40'000, optimizer_b);
    CHECK(overflow_text(session.loss_scaler()) == "inf at [0] of p0, on no rank alone: in the sum");
    CHECK(optimizer_b.step() == StepResult::skipped);
  }
}

// ---- GradScaler ---------------------------------------------------------------------------------

namespace {

/** Two optimizers over the parts of one net, with a GradScaler. */
struct Scaled {
  Scaled() { net.emplace(model, Options{.comm = ranks()}); }

  void backward() {
    a.zero_grad();
    b.zero_grad();
    scaler.scale(model.loss({1, 2})).backward();
  }

  Weighted model{std::vector<Shape>{{4}, {3}}};
  optim::SGD a{{model.params[0]}, {.lr = 0.5}}, b{{model.params[1]}, {.lr = 0.5}};
  amp::GradScaler scaler{{.init_scale = 8, .growth_interval = 4}};
  std::optional<Wrapped> net;
};

/** Returns the scaler's state as text, the same on all ranks. */
std::string state_text(const amp::GradScaler& scaler) {
  std::string text;
  for (const auto& [name, value] : scaler.state_dict()) text += str(name, " ", value, " ");
  return text;
}

bool same_text_on_all_ranks(const std::string& text) {
  const std::vector<std::string> texts = ranks().gather_text(text);
  return std::all_of(texts.begin(), texts.end(), [&](const auto& one) { return one == text; });
}

}  // namespace

TEST_CASE("GradScaler skips, on all ranks, the optimizer that one rank has an overflow for") {
  if (size() == 1) return;
  for (const bool unscales : {false, true}) {
    Scaled training;
    for (int step = 0; step < 6; ++step) {
      const bool bad = step % 3 == 0;
      const double scale = training.scaler.get_scale();
      {
        std::optional<Spoiled> spoiled;
        if (bad && rank() == 1) spoiled.emplace(training.model.params[1], 2, HUGE_VAL);
        training.backward();
      }
      if (unscales) {
        training.scaler.unscale_(training.a);
        training.scaler.unscale_(training.b);
        CHECK(!training.scaler.found_inf(training.a));
        CHECK(training.scaler.found_inf(training.b) == bad);
      }
      CHECK(training.scaler.step(training.a) == StepResult::stepped);
      CHECK(training.scaler.step(training.b) == (bad ? StepResult::skipped : StepResult::stepped));
      training.scaler.update();
      if (bad) {
        CHECK(training.scaler.get_scale() == scale / 2);
        const std::string text = training.scaler.events().back().first_nonfinite;
        // Before its first check the wrapper does not look at the gradients of this rank.
        CHECK(text == str("inf at [2] of parameter 0", step == 0 ? "" : ", first on rank 1"));
      }
      CHECK(same_text_on_all_ranks(state_text(training.scaler)));
    }
    CHECK(all_are(training.model.params[0], 1 - 6 * 0.5));
    CHECK(all_are(training.model.params[1], 1 - 4 * 0.5 * 2));
  }
}

TEST_CASE("a rank without gradients takes part in the verdict of GradScaler") {
  if (size() == 1) return;
  for (const bool unscales : {false, true})
    for (const bool fused : {false, true}) {
      const Weighted model(std::vector<Shape>{{4}});
      const auto optimizer = fused ? MadeOptimizer(std::make_unique<optim::FusedSGD>(
                                         model.parameters(), optim::FusedSgdOptions{.lr = 0.5}))
                                   : MadeOptimizer(std::make_unique<optim::SGD>(
                                         model.parameters(), optim::SgdOptions{.lr = 0.5}));
      amp::GradScaler scaler({.init_scale = 8, .growth_interval = 2});
      const Wrapped net(model, {.comm = ranks()});
      const int absent = size() - 1;
      for (int step = 0; step < 6; ++step) {
        INFO("unscales " << unscales << ", fused " << fused << ", step " << step);
        const bool bad = step % 3 == 1;
        optimizer->zero_grad();
        {
          std::optional<Spoiled> spoiled;
          if (bad && rank() == 0) spoiled.emplace(model.params[0], 2, HUGE_VAL);
          scaler.scale(model.loss({1})).backward();
        }
        if (rank() == absent) optimizer->zero_grad();
        if (unscales) scaler.unscale_(*optimizer);
        const StepResult expected = bad                ? StepResult::skipped
                                    : rank() == absent ? StepResult::no_grads
                                                       : StepResult::stepped;
        CHECK(scaler.step(*optimizer) == expected);
        scaler.update();
        CHECK(same_text_on_all_ranks(state_text(scaler)));
      }
    }
}

TEST_CASE("GradScaler throws DivergenceError on all ranks") {
  if (size() == 1) return;
  const Weighted model(std::vector<Shape>{{4}});
  optim::SGD optimizer(model.parameters(), {.lr = 0.5});
  amp::GradScaler scaler({.init_scale = 8, .max_consecutive_skips = 2});
  const Wrapped net(model, {.comm = ranks()});
  std::optional<Spoiled> spoiled;
  if (rank() == 1) spoiled.emplace(model.params[0], 2, HUGE_VAL);
  const auto step = [&] {
    optimizer.zero_grad();
    scaler.scale(model.loss({1})).backward();
    return scaler.step(optimizer);
  };
  CHECK(step() == StepResult::skipped);
  scaler.update();
  CHECK_THROWS_WITH_AS_TEXT(step(), amp::DivergenceError, "2 consecutive steps skipped");
  scaler.update();
  spoiled.reset();
  CHECK(step() == StepResult::stepped);
  scaler.update();
  CHECK(same_text_on_all_ranks(state_text(scaler)));
}

TEST_CASE("a gradient that one rank loses is found by all in one step, where none is skipped") {
  if (size() == 1) return;
  for (const char* level : {"O0", "O3", "O4", "O5"}) {
    INFO(level);
    Training training(quiet(level));
    const Tensor leaf = training.trainee.module.parameters()[0];
    int at = 0;
    std::string text;
    for (int i = 1; i <= 60 && at == 0; ++i) {
      std::optional<Spoiled> spoiled;
      if (rank() == 1 && i == 3) spoiled.emplace(leaf, 0, std::nan(""));
      try {
        training.step();
      } catch (const amp::DivergenceError& e) {
        at = i;
        text = e.what();
      }
    }
    INFO(text);
    CHECK(at == 50);  // also on ranks whose loss is not finite from step 4 on
    CHECK(text.find("gradients of step 50 are not finite") != std::string::npos);
  }
}
