// Programs that leave out or mistake a call of mixed precision: backward of the wrong loss, no
// scale_loss at all, the optimizer of another net. Each used to train on, but wrong.
#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"
#include "nets.h"

using namespace nets;

namespace {

bool scales(const std::string& level) { return level == "O1" || level == "O2"; }

struct TrainedSession {
  explicit TrainedSession(const std::string& level)
      : session(amp::initialize(net, optimizer, quiet(level.c_str()))) {}
  std::vector<std::vector<double>> weights() const {
    std::vector<std::vector<double>> all;
    for (const Tensor& p : optimizer.params()) all.push_back(p.to(cpu).to_vector<double>());
    return all;
  }
  Net net;
  optim::Adam optimizer{net.parameters(), {.lr = 0.02}};
  amp::Session session;
};

}  // namespace

TEST_CASE("backward of the loss instead of the scaled loss is refused where they differ") {
  const std::string level = GENERATE(from_range(levels::names()));
  TrainedSession t(level);
  train_step(t.net, t.optimizer);
  const auto before = t.weights();
  t.optimizer.zero_grad();
  const Tensor loss = loss_of(t.net);
  const auto wrong = [&] {
    amp::scale_loss(loss, t.optimizer, [&](const Tensor&) { loss.backward(); });
  };
  if (!scales(level)) {
    CHECK_NOTHROW(wrong());
    return;
  }
  CHECK_THROWS_WITH_AS_TEXT(
      wrong(), StateError,
      "amp::scale_loss: backward ran, but not from the scaled loss; got gradients that are not "
      "multiplied by the loss scale 65536, expected backward() of the tensor that the body gets, "
      "or "
      "of scope.loss(); write scaled.backward() instead of loss.backward()");
  for (const Tensor& p : t.net.parameters()) CHECK_FALSE(p.grad().defined());  // as after a throw
  CHECK(t.weights() == before);
  CHECK(t.session.loss_scaler().loss_scale() == 65536);
  CHECK(train_step(t.net, t.optimizer) == amp::StepResult::stepped);
}

TEST_CASE("the scope as an object refuses backward of another loss, and so does a delayed one") {
  const std::string level = GENERATE("O1", "O2");
  TrainedSession t(level);
  {
    auto scope = amp::scale_loss(loss_of(t.net), t.optimizer);
    (loss_of(t.net) * 2).backward();
    CHECK_THROWS_WITH_AS_TEXT(scope.close(), StateError, "not from the scaled loss");
  }
  amp::scale_loss(loss_of(t.net), t.optimizer, {.delay_unscale = true}, run_backward);
  const Tensor loss = loss_of(t.net);
  CHECK_THROWS_WITH_AS_TEXT(
      amp::scale_loss(loss, t.optimizer, [&](const Tensor&) { loss.backward(); }), StateError,
      "not from the scaled loss");
}

TEST_CASE("every way of going backward from the scaled loss is accepted") {
  const std::string level = GENERATE("O1", "O2");
  TrainedSession t(level);
  const auto trains = [&](const std::function<void(const Tensor& scaled)>& body) {
    t.optimizer.zero_grad();
    amp::scale_loss(loss_of(t.net), t.optimizer, body);
    CHECK(t.optimizer.step() == amp::StepResult::stepped);
  };
  trains([](const Tensor& scaled) { (scaled / 2).backward(); });
  trains([](const Tensor& scaled) { backward({scaled * 0.5, scaled * 0.25}, {}); });
  trains([&](const Tensor& scaled) {
    scaled.backward({}, true);
    scaled.backward();
  });
  trains([&](const Tensor& scaled) {
    const std::vector<Tensor> params = t.net.parameters();
    const std::vector<Tensor> gradients = grad(scaled, params);
    for (std::size_t i = 0; i < params.size(); ++i) params[i].set_grad(gradients[i]);
  });
  trains([&](const Tensor& scaled) {  // an inner pass that has nothing to do with the weights
    const Tensor x = wave({3}, 1).requires_grad_();
    sum(x * x).backward();
    scaled.backward();
  });
}

TEST_CASE("a scaled loss has the bits of the loss times the scale, and its gradients") {
  TrainedSession t("O1");
  const Tensor loss = loss_of(t.net);
  t.optimizer.zero_grad();
  amp::scale_loss(loss, t.optimizer, [&](const Tensor& scaled) {
    CHECK(scaled.item<double>() == 65536 * loss.item<double>());
    CHECK(scaled.requires_grad());
    CHECK(scaled.shape() == loss.shape());
    scaled.backward();
  });
  const NoGrad no_grad;
  amp::scale_loss(loss.detach(), t.optimizer,
                  [](const Tensor& scaled) { CHECK_FALSE(scaled.requires_grad()); });
}

// ---- no scale_loss ------------------------------------------------------------------------------

TEST_CASE("a step with gradients from no scale_loss is refused where losses are scaled") {
  const std::string level = GENERATE(from_range(levels::names()));
  const bool has_masters = level == "O2" || level == "O5";
  TrainedSession t(level);
  const auto plain_step = [&] {
    loss_of(t.net).backward();
    t.optimizer.step();
  };
  if (!scales(level) && !has_masters) {
    CHECK_NOTHROW(plain_step());
    return;
  }
  const auto before = t.weights();
  CHECK_THROWS_WITH_AS_TEXT(plain_step(), StateError, "Adam.step: backward ran outside scale_loss");
  CHECK(t.weights() == before);
  t.optimizer.zero_grad();
  CHECK(train_step(t.net, t.optimizer) == amp::StepResult::stepped);
  SECTION("after optimizer.zero_grad()") { t.optimizer.zero_grad(); }
  SECTION("after net.zero_grad()") { t.net.zero_grad(); }
  CHECK_THROWS_WITH_AS_TEXT(plain_step(), StateError, "backward ran outside scale_loss");
}

TEST_CASE("a refused step names the parameter, and a static scale is a scale") {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  auto session =
      amp::initialize(net, optimizer, {.opt_level = "O1", .loss_scale = 128.0, .verbosity = 0});
  loss_of(net).backward();
  CHECK_THROWS_WITH_AS_TEXT(optimizer.step(), StateError,
                            "got a gradient of \"first.weight\" f32[8,6]");
  session.close();
  CHECK(optimizer.step() == amp::StepResult::stepped);
}

TEST_CASE("gradients that a scope has unscaled may be used again and added to") {
  TrainedSession t("O1");
  train_step(t.net, t.optimizer);
  CHECK(t.optimizer.step() == amp::StepResult::stepped);   // the same gradients again
  (sum(square(t.net.parameters()[0])) * 0.01).backward();  // in f32, nothing is lost
  CHECK(t.optimizer.step() == amp::StepResult::stepped);
  t.optimizer.zero_grad(false);
  CHECK(t.optimizer.step() == amp::StepResult::stepped);  // zeros
}

TEST_CASE("an optimizer that was not passed to scale_loss cannot step with its gradients") {
  const std::string level = GENERATE("O1", "O2");
  Net a(0), b(1);
  optim::SGD of_a(a.parameters(), {.lr = 0.1}), of_b(b.parameters(), {.lr = 0.1});
  const auto session = amp::initialize({a, b}, {of_a, of_b}, quiet(level.c_str()));
  amp::scale_loss(loss_of(a) + loss_of(b), of_a, run_backward);
  CHECK(of_a.step() == amp::StepResult::stepped);
  CHECK_THROWS_WITH_AS_TEXT(of_b.step(), StateError, "over all optimizers");
}

// ---- GradScaler ---------------------------------------------------------------------------------

TEST_CASE("GradScaler refuses gradients that did not come from a scaled loss") {
  const bool unscales = GENERATE(false, true);
  const bool fused = GENERATE(false, true);
  Net net;
  std::unique_ptr<optim::Optimizer> optimizer;
  if (fused)
    optimizer = std::make_unique<optim::FusedAdam>(net.parameters());
  else
    optimizer = std::make_unique<optim::Adam>(net.parameters());
  amp::GradScaler scaler;
  const auto step = [&](bool right) {
    optimizer->zero_grad();
    const Tensor loss = loss_of(net), scaled = scaler.scale(loss);
    (right ? scaled : loss).backward();
    if (unscales) scaler.unscale_(*optimizer);
    const optim::StepResult result = scaler.step(*optimizer);
    scaler.update();
    return result;
  };
  const std::string text =
      str(unscales ? "GradScaler.unscale_" : "GradScaler.step",
          ": backward ran, but not from a scaled loss; got a gradient of f32[8,"
          "6]@",
          test_device(),
          " that is not multiplied by the loss scale, "
          "expected scaler.scale(loss).backward(); call zero_grad() to drop "
          "the gradients");
  CHECK(error_of<StateError>([&] { step(false); }) == text);
  CHECK(step(true) == optim::StepResult::stepped);
  CHECK(error_of<StateError>([&] { step(false); }) == text);
  CHECK(step(true) == optim::StepResult::stepped);
  optimizer->zero_grad();
  loss_of(net).backward();  // without scale() at all
  CHECK_THROWS_WITH_AS_TEXT(scaler.step(*optimizer), StateError, "not from a scaled loss");
}

TEST_CASE("GradScaler accepts accumulated gradients, several losses and gradients of one's own") {
  Net net;
  optim::Adam optimizer(net.parameters());
  amp::GradScaler scaler;
  for (int i = 0; i < 3; ++i) scaler.scale(loss_of(net) / 3).backward();
  CHECK(scaler.step(optimizer) == optim::StepResult::stepped);
  scaler.update();
  optimizer.zero_grad();
  (scaler.scale(loss_of(net)) + scaler.scale(loss_of(net))).backward();
  CHECK(scaler.step(optimizer) == optim::StepResult::stepped);
  scaler.update();
  optimizer.zero_grad();
  for (const Tensor& p : net.parameters()) p.set_grad(ones_like(p));
  CHECK(scaler.step(optimizer) == optim::StepResult::stepped);
  scaler.update();
}

// ---- the optimizer of another net ---------------------------------------------------------------

TEST_CASE("backward of the scaled loss after the scope is refused where there is a scale") {
  const std::string level = GENERATE(from_range(levels::names()));
  TrainedSession t(level);
  train_step(t.net, t.optimizer);
  const auto before = t.weights();
  for (const bool as_object : {false, true}) {
    t.optimizer.zero_grad();
    Tensor kept;
    if (as_object) {
      auto scope = amp::scale_loss(loss_of(t.net), t.optimizer);
      kept = scope.loss();
    } else {
      amp::scale_loss(loss_of(t.net), t.optimizer, [&](const Tensor& scaled) { kept = scaled; });
    }
    if (!scales(level)) {
      CHECK_NOTHROW(kept.backward());
      continue;
    }
    CHECK_THROWS_WITH_AS_TEXT(kept.backward(), StateError,
                              "backward of a scaled loss after the end of its scope");
    CHECK_THROWS_AS(t.optimizer.step(), StateError);
    CHECK(t.weights() == before);
  }
  t.optimizer.zero_grad();
  CHECK(train_step(t.net, t.optimizer) == amp::StepResult::stepped);
}

TEST_CASE("initialize refuses the optimizer of another net and names what it lacks") {
  const std::string level = GENERATE(from_range(levels::names()));
  Net net, other;
  optim::SGD optimizer(other.parameters(), {.lr = 0.1});
  CHECK(
      error_of<ValueError>([&] { (void)amp::initialize(net, optimizer, quiet(level.c_str())); }) ==
      str("amp::initialize: an optimizer has no parameter of the models; got SGD with f32[8,6]@",
          test_device(), " of another model, expected \"first.weight\" f32[8,6]@", test_device(),
          " of Net in an optimizer; pass the optimizer of this model, or the other model too"));
  CHECK(optimizer.hooks() == nullptr);
  CHECK(net.attached_to() == nullptr);
}

TEST_CASE("initialize refuses one net of two without an optimizer, beside one of a third") {
  Net a, b, c;
  optim::SGD of_a(a.parameters(), {.lr = 0.1}), of_c(c.parameters(), {.lr = 0.1});
  CHECK_THROWS_AS((void)amp::initialize({a, b}, {of_a, of_c}, quiet("O1")), ValueError);
}

TEST_CASE("initialize accepts optimizers of tensors of one's own, of further nets and of parts") {
  Net net, further;
  const Tensor temperature = ones({}, {.device = test_device()}).requires_grad_();
  optim::SGD of_net(net.parameters(), {.lr = 0.1}), of_further(further.parameters(), {.lr = 0.1}),
      of_temperature({temperature}, {.lr = 0.1}), of_part(net.second.parameters(), {.lr = 0.1});
  CHECK_NOTHROW(amp::initialize(net, {of_net, of_temperature}, quiet("O1")).close());
  CHECK_NOTHROW(amp::initialize(net, of_temperature, quiet("O1")).close());
  CHECK_NOTHROW(amp::initialize(net, {of_net, of_further}, quiet("O1")).close());
  CHECK_NOTHROW(amp::initialize(net, of_part, quiet("O1")).close());
  CHECK_NOTHROW(amp::initialize({net, further}, of_net, quiet("O1")).close());  // a teacher
  further.freeze();
  CHECK_NOTHROW(amp::initialize(further, of_net, quiet("O1")).close());
  CHECK_NOTHROW(amp::initialize(net, quiet("O1")).close());
}

TEST_CASE("initialize refuses an optimizer from before replace() and names the parameter") {
  const std::string level = GENERATE(from_range(levels::names()));
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  net.replace(net.second, Affine(8, 4, 1));
  CHECK_THROWS_WITH_AS_TEXT(
      (void)amp::initialize(net, optimizer, quiet(level.c_str())), StateError,
      "amp::initialize: a parameter is in no optimizer; got \"second.weight\" f32[4,8]");
  optim::SGD late(net.second.parameters(), {.lr = 0.1});
  CHECK_NOTHROW(amp::initialize(net, {optimizer, late}, quiet(level.c_str())).close());
}

TEST_CASE("a step is refused after a backward pass that adds to unscaled gradients") {
  Net net, other;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1}), second(other.parameters(), {.lr = 0.1});
  amp::GradScaler scaler({.init_scale = 16});
  scaler.scale(loss_of(net)).backward();
  scaler.unscale_(optimizer);
  scaler.scale(loss_of(other)).backward();  // of other parameters
  optim::clip_grad_norm(net.parameters(), 1.0);
  (void)grad(scaler.scale(loss_of(net)), net.parameters());  // adds to no gradient
  CHECK(scaler.step(optimizer) == amp::StepResult::stepped);
  scaler.scale(loss_of(net)).backward();  // after the step: for the next one
  CHECK(scaler.step(second) == amp::StepResult::stepped);
  scaler.update();

  optimizer.zero_grad();
  scaler.scale(loss_of(net)).backward();
  scaler.unscale_(optimizer);
  scaler.scale(loss_of(net)).backward();
  CHECK_THROWS_WITH_AS_TEXT(scaler.step(optimizer), StateError, "backward ran after unscale_");
  optimizer.zero_grad();
  scaler.update();
  scaler.scale(loss_of(net)).backward();
  CHECK(scaler.step(optimizer) == amp::StepResult::stepped);
  scaler.update();
}

TEST_CASE("clipping inside scale_loss is refused where gradients are still scaled there") {
  const std::string level = GENERATE(from_range(levels::names()));
  const bool by_value = GENERATE(false, true);
  TrainedSession t(level);
  train_step(t.net, t.optimizer);
  t.optimizer.zero_grad();
  const auto clip = [&] {
    if (by_value)
      optim::clip_grad_value(amp::master_params(t.optimizer), 0.5);
    else
      (void)optim::clip_grad_norm(amp::master_params(t.optimizer), 1.0);
  };
  const auto inside = [&] {
    amp::scale_loss(loss_of(t.net), t.optimizer, [&](const Tensor& scaled) {
      scaled.backward();
      clip();
    });
  };
  if (scales(level) || level == "O5")
    CHECK_THROWS_WITH_AS_TEXT(inside(), StateError, "clip after the body of scale_loss");
  else
    CHECK_NOTHROW(inside());
  t.optimizer.zero_grad();
  amp::scale_loss(loss_of(t.net), t.optimizer, run_backward);
  CHECK_NOTHROW(clip());
  CHECK(t.optimizer.step() == amp::StepResult::stepped);

  Net other;  // in no scope
  sum(loss_of(other)).backward();
  amp::scale_loss(loss_of(t.net), t.optimizer, [&](const Tensor& scaled) {
    CHECK_NOTHROW(optim::clip_grad_norm(other.parameters(), 1.0));
    scaled.backward();
  });
}

TEST_CASE("clipping gradients that GradScaler has not unscaled is logged once for each scaler") {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  for (const bool unscales : {true, false}) {
    const LogCapture log;
    amp::GradScaler scaler({.init_scale = 16});
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      loss_of(net).backward();  // before the first scaled loss of the step
      (void)optim::clip_grad_norm(net.parameters(), 1.0);
      optimizer.zero_grad();
      scaler.scale(loss_of(net)).backward();
      if (unscales) scaler.unscale_(optimizer);
      (void)optim::clip_grad_norm(net.parameters(), 1.0);
      scaler.step(optimizer);
      scaler.update();
    }
    REQUIRE(log.lines.size() == (unscales ? 0 : 1));
    if (!unscales)
      CHECK(log.lines[0].find("clip_grad_norm: a GradScaler has scaled a loss, and the gradient is "
                              "not unscaled") == 0);
  }
}
