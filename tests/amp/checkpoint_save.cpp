// When a training can be saved.
#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"
#include "trainings.h"

using namespace trainings;

TEST_CASE("a session inside an iteration is not saved", "[checkpoint]") {
  for (const char* level : levels::names()) {
    INFO(level);
    const files::Directory directory = files::Directory::fast();
    Run run({.surface = level});
    const auto loss = [&] { return cross_entropy(run.net.forward(samples().x()), samples().y()); };
    const auto refused = [&](const char* what, const char* hint) {
      const std::string text =
          files::thrown<StateError>([&] { amp::save_checkpoint(directory.path(), run.parts()); });
      INFO(text);
      CHECK(text.find(what) != std::string::npos);
      CHECK(text.find(hint) != std::string::npos);
      CHECK(directory.count() == 0);
    };
    const auto saved = [&] {
      const files::Directory other = files::Directory::fast();
      CHECK_NOTHROW(amp::save_checkpoint(other.path(), run.parts()));
    };
    const auto backward = [](const Tensor& scaled) { scaled.backward(); };
    saved();
    {
      auto scope = amp::scale_loss(loss(), *run.optimizer);
      refused("a scale_loss scope is open", "close the scope");
      scope.loss().backward();
      refused("a scale_loss scope is open", "close the scope");
      scope.close();
    }
    refused("gradients are pending for a step", "call step() first");
    run.optimizer->zero_grad();
    saved();
    amp::scale_loss(loss(), *run.optimizer, backward);
    amp::scale_loss(loss(), *run.optimizer, backward);
    refused("gradients are pending for a step", "call step() first");
    CHECK(run.optimizer->step() == optim::StepResult::stepped);
    CHECK(run.net.module.parameters()[0]
              .grad()
              .defined());  // a step leaves gradients; they do not block a save
    saved();
    const std::string delayed = level;
    amp::scale_loss(loss(), *run.optimizer, {.delay_unscale = true}, backward);
    const bool scales = delayed == "O1" || delayed == "O2" || delayed == "O5";
    refused(scales ? "delayed unscaling" : "gradients are pending for a step", "step()");
    run.optimizer->zero_grad();
    saved();
    try {
      amp::scale_loss(loss(), *run.optimizer, [](const Tensor& scaled) {
        scaled.backward();
        throw std::runtime_error("body");
      });
    } catch (const std::runtime_error&) {}
    saved();  // the scope's gradients were dropped with it
    if (!run.dynamic()) continue;
    amp::scale_loss(loss() * 1e30, *run.optimizer, backward);
    refused("an overflow is pending for the next step", "call step() first");
    run.optimizer->zero_grad();
    refused("an overflow is pending for the next step", "call step() first");
    CHECK(run.optimizer->step() == optim::StepResult::skipped);
    saved();
  }
}

TEST_CASE("an optimizer without a step after a scope is not saved, even if another one stepped",
          "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  const Mlp a, b;
  optim::SGD one(a.parameters()), two(b.parameters());
  auto session = amp::initialize(std::vector<nn::Module>{a, b}, {one, two}, nets::quiet("O1"));
  const amp::Training parts{
      .model = {{"a", a}, {"b", b}}, .optimizer = {{"a", one}, {"b", two}}, .session = session};
  const Tensor loss = sum(a(samples().x()) * b(samples().x())) * 1e-3;
  amp::scale_loss(loss, {one, two}, [](const Tensor& scaled) { scaled.backward(); });
  (void)one.step();
  CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(directory.path(), parts), StateError,
                            "SGD (optimizer 1)");
  (void)two.step();
  CHECK_NOTHROW(amp::save_checkpoint(directory.path(), parts));
}

TEST_CASE("a GradScaler inside an iteration is not saved", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "scaler"});
  const auto refused = [&] {
    CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(directory.path(), run.parts()), StateError,
                              "call update() first");
  };
  const Tensor scaled =
      run.scaler->scale(cross_entropy(run.net.forward(samples().x()), samples().y()));
  refused();
  scaled.backward();
  refused();
  run.scaler->unscale_(*run.optimizer);
  refused();
  (void)run.scaler->step(*run.optimizer);
  refused();
  run.scaler->update();
  CHECK_NOTHROW(amp::save_checkpoint(directory.path(), run.parts()));
  // A load ends the iteration too, as is needed to return to a checkpoint after a divergence.
  run.scaler->scale(cross_entropy(run.net.forward(samples().x()), samples().y()) * HUGE_VAL)
      .backward();
  (void)run.scaler->step(*run.optimizer);
  run.resumed(amp::load_checkpoint(directory.path(), run.parts()));
  CHECK_FALSE(run.scaler->amid_iteration());
  for (const Tensor& param : run.optimizer->params()) CHECK_FALSE(param.grad().defined());
  CHECK_NOTHROW(run.steps(2));
}

TEST_CASE("a load drops pending gradients and skips, but is refused inside a scope",
          "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O2"});
  run.steps(2);
  amp::save_checkpoint(directory.path(), run.parts());
  const std::vector<double> expected = run.steps(3);
  const auto loss = [&] {
    return cross_entropy(run.net.forward(samples().x()), samples().y()) * 1e30;
  };
  {
    auto scope = amp::scale_loss(loss(), *run.optimizer);
    check_refused<StateError>(run, directory.path(), "a scale_loss scope is open");
    scope.loss().backward();
  }
  run.resumed(amp::load_checkpoint(directory.path(), run.parts()));
  CHECK(run.steps(3) == expected);
}

TEST_CASE("invalid saves are refused before anything is written", "[checkpoint]") {
  const files::Directory directory = files::Directory::fast();
  Run run({.surface = "O1"});
  const auto refused = [&](const amp::Training& parts, const char* part,
                           const amp::SaveCheckpointOptions& options = {}) {
    CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(directory.path(), parts, options), ValueError,
                              part);
    CHECK(directory.count() == 0);
  };
  amp::Training parts = run.parts();
  parts.step = -1;
  refused(parts, "must not be negative");
  parts = run.parts();
  parts.epoch = -1;
  refused(parts, "must not be negative");
  refused(run.parts(), "keep must not be negative", {.keep = -1});
  parts = run.parts();
  parts.session = {};
  refused(parts, "belongs to a session that is not in .session");
  parts.optimizer = {};
  refused(parts, "a model belongs to a session that is not in .session");
  const Mlp other;
  parts = run.parts();
  parts.model = {{"a", run.net.module}, {"a", other}};
  refused(parts, "duplicate name for a");
  parts.model = {{"a", run.net.module}, {"", other}};
  refused(parts, "invalid name for a model");
  parts.model = {{"a", run.net.module}, {"b.c", other}};
  refused(parts, "without a dot");
  parts.model = {{"\xFF", run.net.module}};
  refused(parts, "invalid name for a model");
  parts = run.parts();
  parts.model = other;
  refused(parts, "has no name");
  parts = run.parts();
  parts.metadata = {{"a", "\xFF"}};
  refused(parts, "not UTF-8");
  parts = run.parts();
  run.session->close();
  CHECK_THROWS_WITH_AS_TEXT(amp::save_checkpoint(directory.path(), parts), StateError,
                            "a session is closed");
  CHECK_THROWS_AS(amp::save_checkpoint("/dev/null/runs", amp::Training{}), IoError);
}
