// Local gradients: passes under no_sync(), and between them reduced passes, zero_grad and errors.
#include "../support/levels.h"
#include "weighted.h"

using namespace trainees;
using optim::StepResult;

namespace {

/** A model of two parameters, of which one is reduced in its own memory. */
Weighted two_parameters() { return Weighted(std::vector<Shape>{{4}, {300'000}}); }

/** The factor of this rank's loss number `i`; divisible by the number of ranks. */
double factor(int of_rank, int i) { return size() * (3 * i + of_rank + 1); }

/** What the gradient of losses `i` becomes, reduced. */
double reduced_factor(int i, bool average) {
  return total_over_ranks([&](int r) { return factor(r, i); }) / (average ? size() : 1);
}

void add_loss(const Weighted& model, int i) {
  model.loss({factor(rank(), i), 2 * factor(rank(), i)}).backward();
}

std::string wrong(const Weighted& model, double expected) {
  return wrong_gradients(model, {expected, 2 * expected});
}

/** Options under which gradients are kept and divided differently. */
std::vector<Options> storages() {
  return {{.comm = ranks()},
          {.comm = ranks(), .first_bucket_mib = 1e-9, .gradients_are_views = false},
          {.comm = ranks(), .overlap = false, .average = false},
          {.comm = ranks(), .average = false, .predivide_factor = 1, .static_graph = true}};
}

}  // namespace

TEST_CASE("each backward pass is reduced once, whether gradients are averaged or not") {
  for (const Options& options : storages()) {
    const auto model = two_parameters();
    const Wrapped net(model, options);
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      double expected = 0;
      for (int i = 0; i < 4; ++i) {
        add_loss(model, i);
        expected += reduced_factor(i, options.average);
        CHECK(wrong(model, expected) == "");
      }
    }
  }
}

TEST_CASE("a graph that is kept can be differentiated again") {
  for (const Options& options : storages()) {
    const auto model = two_parameters();
    const Wrapped net(model, options);
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      const Tensor loss = model.loss({factor(rank(), 0), 2 * factor(rank(), 0)});
      backward(loss, {}, true);
      backward(loss, {}, true);
      loss.backward();
      CHECK(wrong(model, 3 * reduced_factor(0, options.average)) == "");
    }
  }
}

TEST_CASE("a reduced gradient is put aside while passes are local") {
  for (const Options& options : storages()) {
    const auto model = two_parameters();
    const Wrapped net(model, options);
    const bool averages = options.average;
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      add_loss(model, 0);
      if (size() > 1) {
        const auto local = net.no_sync();
        add_loss(model, 1);
        CHECK(wrong(model, factor(rank(), 1)) == "");
        const auto inner = net.no_sync();
        add_loss(model, 2);
        CHECK(wrong(model, factor(rank(), 1) + factor(rank(), 2)) == "");
      } else {
        add_loss(model, 1);
        add_loss(model, 2);
      }
      add_loss(model, 3);
      double expected = 0;
      for (int i = 0; i < 4; ++i) expected += reduced_factor(i, averages);
      CHECK(wrong(model, expected) == "");
      add_loss(model, 4);
      CHECK(wrong(model, expected + reduced_factor(4, averages)) == "");
    }
  }
}

TEST_CASE("a local gradient is reduced by a pass that does not reach its parameter") {
  for (const Options& options : storages()) {
    const auto model = two_parameters();
    const Wrapped net(model, options);
    for (int step = 0; step < 3; ++step) {
      model.zero_grad();
      {
        const auto local = net.no_sync();
        if (rank() == 0) add_loss(model, 0);
      }
      model.loss({factor(rank(), 1), 0}).backward();
      const double first = factor(0, 0) / (options.average ? size() : 1);
      CHECK(wrong_gradients(model, {first + reduced_factor(1, options.average), 2 * first}) == "");
    }
  }
}

TEST_CASE("zero_grad drops local gradients and those that were put aside") {
  for (const bool to_none : {true, false})
    for (const bool by_optimizer : {true, false})
      for (const Options& options : storages()) {
        INFO(to_none << by_optimizer);
        const auto model = two_parameters();
        optim::SGD optimizer(model.parameters(), {.lr = 0});
        const Wrapped net(model, options);
        const auto zero = [&] {
          by_optimizer ? optimizer.zero_grad(to_none) : model.zero_grad(to_none);
        };
        for (int step = 0; step < 3; ++step) {
          add_loss(model, 0);
          {
            const auto local = net.no_sync();
            add_loss(model, 1);
            zero();
            add_loss(model, 2);
          }
          add_loss(model, 3);
          CHECK(wrong(model, reduced_factor(2, options.average) +
                                 reduced_factor(3, options.average)) == "");
          {
            const auto local = net.no_sync();
            add_loss(model, 1);
          }
          zero();
          add_loss(model, 3);
          CHECK(wrong(model, reduced_factor(3, options.average)) == "");
          {
            const auto local = net.no_sync();
            add_loss(model, 1);
          }
          zero();
          if (!to_none) CHECK(optimizer.step() == StepResult::stepped);
        }
      }
}

TEST_CASE("a local pass that fails changes no gradient") {
  if (size() == 1) return;
  const auto model = two_parameters();
  optim::SGD optimizer(model.parameters(), {.lr = 0});
  const Wrapped net(model, {.comm = ranks()});
  add_loss(model, 0);
  bool fails = true;
  const Tensor x = ones({}).requires_grad_();
  register_hook(x, [&](const Tensor&) -> Tensor {
    if (fails) throw ValueError("the hook fails");
    return {};
  });
  const auto pass = [&] {
    const Tensor early = x * 0.0;  // its gradient is computed last
    (early + model.loss({1, 1})).backward();
  };
  {
    const auto local = net.no_sync();
    CHECK(thrown_by(pass) == "the hook fails");
    CHECK(wrong(model, reduced_factor(0, true)) == "");
  }
  CHECK(optimizer.step() == StepResult::stepped);
  {
    const auto local = net.no_sync();
    CHECK(thrown_by(pass) == "the hook fails");
    add_loss(model, 1);
    CHECK(thrown_by(pass) == "the hook fails");
    CHECK(wrong(model, factor(rank(), 1)) == "");
  }
  add_loss(model, 2);
  CHECK(wrong(model, reduced_factor(0, true) + reduced_factor(1, true) + reduced_factor(2, true)) ==
        "");
}

TEST_CASE("scopes of no_sync can be moved, and may outlive the wrapper") {
  const auto model = two_parameters();
  std::optional<nn::NoSync> scope;
  {
    Wrapped net(model, {.comm = ranks()});
    scope.emplace(net.no_sync());
    {
      nn::NoSync inner = net.no_sync();
      const nn::NoSync moved = std::move(inner);
    }
    add_loss(model, 0);
    CHECK(wrong(model, factor(rank(), 0)) == "");
    net.close();
  }
  CHECK(wrong(model, factor(rank(), 0)) == "");
  scope.reset();
}

TEST_CASE("close() adds gradients that were put aside to the local ones") {
  const auto model = two_parameters();
  Wrapped net(model, {.comm = ranks()});
  add_loss(model, 0);
  const auto local = net.no_sync();
  add_loss(model, 1);
  net.close();
  CHECK(wrong(model, reduced_factor(0, true) + factor(rank(), 1)) == "");
}

// ---- errors -------------------------------------------------------------------------------------

TEST_CASE("a step with local gradients is refused and names the parameter") {
  const QuietLog quiet;
  if (size() == 1) return;
  const auto model = two_parameters();
  optim::SGD optimizer(model.parameters(), {.lr = 0});
  const Wrapped net(model, {.comm = ranks()});
  {
    const auto local = net.no_sync();
    model.loss({0, 1}).backward();
  }
  CHECK_THROWS_WITH_AS_TEXT(optimizer.step(), StateError,
                            "SGD: the gradient of p1 was not reduced over the processes; leave "
                            "no_sync before the last backward");
  add_loss(model, 0);
  CHECK(optimizer.step() == StepResult::stepped);
}

TEST_CASE("GradScaler neither unscales nor uses local gradients") {
  if (size() == 1) return;
  const auto model = two_parameters();
  optim::SGD optimizer(model.parameters(), {.lr = 0});
  const Wrapped net(model, {.comm = ranks()});
  amp::GradScaler scaler({.init_scale = 8});
  const auto add_scaled = [&](int i) {
    scaler.scale(model.loss({factor(rank(), i), 2 * factor(rank(), i)})).backward();
  };
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    {
      const auto local = net.no_sync();
      add_scaled(0);
      CHECK_THROWS_WITH_AS_TEXT(scaler.unscale_(optimizer), StateError,
                                "GradScaler.unscale_: the gradient of p0 was not reduced over the "
                                "processes; leave no_sync before the last backward");
      CHECK_THROWS_WITH_AS_TEXT(scaler.step(optimizer), StateError, "was not reduced");
    }
    add_scaled(1);
    scaler.unscale_(optimizer);
    CHECK(wrong(model, reduced_factor(0, true) + reduced_factor(1, true)) == "");
    CHECK(scaler.step(optimizer) == StepResult::stepped);
    scaler.update();
  }
}

TEST_CASE("a scope that would unscale local gradients is refused and changes nothing") {
  if (size() == 1) return;
  for (const char* level : levels::names()) {
    if (!scales(level)) continue;
    INFO(level);
    const auto model = two_parameters();
    optim::SGD optimizer(model.parameters(), {.lr = 0.5});
    auto session = amp::initialize(model, optimizer, quiet(level));
    if (session.options().dynamic()) session.loss_scaler().set_loss_scale(2);
    const Wrapped net(model, {.comm = ranks()});
    const auto scope = [&](int i, bool delays) {
      const Tensor loss = model.loss({factor(rank(), i), 2 * factor(rank(), i)});
      amp::scale_loss(loss, optimizer, {.delay_unscale = delays},
                      [](const Tensor& scaled) { scaled.backward(); });
    };
    const auto refused = [&] {
      const auto local = net.no_sync();
      CHECK_THROWS_WITH_AS_TEXT(scope(1, false), StateError,
                                "amp::scale_loss: the gradient of p0 was not reduced over the "
                                "processes; pass delay_unscale, or leave no_sync before the last "
                                "scope");
    };
    const auto value = [&] { return amp::master_params(optimizer)[0].to_vector<double>()[0]; };
    for (int step = 0; step < 2; ++step) {
      // after reduced gradients: these stay
      optimizer.zero_grad();
      double expected = value() - 0.5 * reduced_factor(0, true);
      scope(0, false);
      refused();
      CHECK(optimizer.step() == StepResult::stepped);
      CHECK(value() == expected);
      // before reduced gradients
      optimizer.zero_grad();
      refused();
      expected = value() - 0.5 * reduced_factor(2, true);
      scope(2, false);
      CHECK(optimizer.step() == StepResult::stepped);
      CHECK(value() == expected);
      // after delayed local gradients: those of both stay
      optimizer.zero_grad();
      {
        const auto local = net.no_sync();
        scope(0, true);
      }
      refused();
      expected = value() - 0.5 * (reduced_factor(0, true) + reduced_factor(1, true) +
                                  reduced_factor(2, true));
      scope(2, false);
      CHECK(optimizer.step() == StepResult::stepped);
      CHECK(value() == expected);
    }
  }
}

TEST_CASE("a scope that fails after a local pass leaves reduced gradients as they were") {
  if (size() == 1) return;
  for (const bool averages : {true, false})
    for (const char* level : levels::names()) {
      INFO(level << averages);
      const auto model = two_parameters();
      optim::SGD optimizer(model.parameters(), {.lr = 0.5});
      auto session = amp::initialize(model, optimizer, quiet(level));
      if (session.options().dynamic()) session.loss_scaler().set_loss_scale(2);
      const Wrapped net(model, {.comm = ranks(), .average = averages});
      const auto scope = [&](int i, bool delays, bool fails) {
        const Tensor loss = model.loss({factor(rank(), i), 2 * factor(rank(), i)});
        amp::scale_loss(loss, optimizer, {.delay_unscale = delays}, [&](const Tensor& scaled) {
          scaled.backward();
          if (fails) throw ValueError("it fails");
        });
      };
      const auto value = [&] { return amp::master_params(optimizer)[0].to_vector<double>()[0]; };
      for (int step = 0; step < 2; ++step) {
        if (!scales(level)) continue;  // scopes do nothing: the gradients stay
        optimizer.zero_grad();
        scope(0, false, false);
        for (const bool delays : {true, false}) {
          const auto local = net.no_sync();
          CHECK(thrown_by([&] { scope(1, delays, true); }) == "it fails");
        }
        double expected = value() - 0.5 * reduced_factor(0, averages);
        CHECK(optimizer.step() == StepResult::stepped);
        CHECK(value() == expected);
        optimizer.zero_grad();
        scope(0, false, false);
        {
          const auto local = net.no_sync();
          CHECK(thrown_by([&] { scope(1, true, true); }) == "it fails");
        }
        scope(2, false, false);
        expected = value() - 0.5 * (reduced_factor(0, averages) + reduced_factor(2, averages));
        CHECK(optimizer.step() == StepResult::stepped);
        CHECK(value() == expected);
      }
    }
}
