#include "nets.h"

#include "../support/catch.h"
#include "../support/throws.h"
#include "../support/values.h"

using namespace nets;
using amp::StepResult;
using testing::kInf;

namespace {

/** One parameter and an optimizer under a session without models. */
struct SessionScalar {
  explicit SessionScalar(const amp::Options& options, optim::SgdOptions sgd = {.lr = 1})
      : p(tensor(0.0).requires_grad_()),
        optimizer({p}, sgd),
        session(amp::initialize(amp::ModelList{}, optimizer, options)) {}

  /** Runs a backward whose unscaled gradient is g. */
  void backward(double g, const amp::ScaleLossOptions& options = {}) {
    amp::scale_loss(sum(p * g), optimizer, options,
                    [](const Tensor& scaled) { scaled.backward(); });
  }

  Tensor p;
  optim::SGD optimizer;
  amp::Session session;
};

amp::Options scaled_options(double scale, const char* level = "O0") {
  amp::Options options = quiet(level);
  options.loss_scale = scale;
  return options;
}

}  // namespace

TEST_CASE("gradients are unscaled after the scope") {
  SessionScalar s(scaled_options(1024));
  amp::scale_loss(sum(s.p * 3), s.optimizer, [&](const Tensor& loss) {
    CHECK(loss.item<double>() == 0);
    loss.backward();
    CHECK(s.p.grad().item<double>() == 3072);
  });
  CHECK(s.p.grad().item<double>() == 3);
  CHECK(s.optimizer.step() == StepResult::stepped);
  CHECK(s.p.item<double>() == -3);
}

TEST_CASE("the loss is cast to f32, an f64 loss stays f64") {
  SessionScalar s(scaled_options(65536));
  const Tensor half = tensor(2.0, {.dtype = f16}), wide = tensor(2.0, {.dtype = f64});
  amp::scale_loss(half, s.optimizer, [](const Tensor& loss) {
    CHECK(loss.dtype() == f32);
    CHECK(loss.item<double>() == 131072);
  });
  amp::scale_loss(wide, s.optimizer, [](const Tensor& loss) { CHECK(loss.dtype() == f64); });
  CHECK_THROWS_AS(amp::scale_loss(tensor(1.0, {.dtype = i64}), s.optimizer, [](const Tensor&) {}),
                  DtypeError);
}

TEST_CASE("scopes accumulate unscaled sums") {
  SessionScalar s(scaled_options(64));
  s.backward(1);
  s.session.loss_scaler().set_loss_scale(8);
  s.backward(2);
  s.backward(4);
  CHECK(s.p.grad().item<double>() == 7);
  s.optimizer.step();
  CHECK(s.p.item<double>() == -7);
}

TEST_CASE("an earlier gradient stays if a scope adds none") {
  SessionScalar s(scaled_options(64));
  s.backward(5);
  amp::scale_loss(tensor(1.0), s.optimizer, [](const Tensor&) {});
  CHECK(s.p.grad().item<double>() == 5);
}

TEST_CASE("unscaling may be delayed to the last scope") {
  SessionScalar s(scaled_options(64));
  s.backward(1, {.delay_unscale = true});
  CHECK(s.p.grad().item<double>() == 64);
  CHECK_THROWS_WITH_AS_TEXT(s.optimizer.step(), StateError,
                            "the last scale_loss delayed unscaling");
  CHECK(s.session.loss_scaler().unskipped() == 0);
  s.session.loss_scaler().set_loss_scale(32);
  CHECK_THROWS_AS(s.backward(1), StateError);
  s.session.loss_scaler().set_loss_scale(64);
  s.backward(2);
  CHECK(s.p.grad().item<double>() == 3);
  CHECK(s.optimizer.step() == StepResult::stepped);
  s.backward(1, {.delay_unscale = true});
  s.optimizer.zero_grad();
  s.session.loss_scaler().set_loss_scale(2);
  s.backward(1);
  CHECK(s.p.grad().item<double>() == 1);
}

TEST_CASE("levels without scaling pass the loss through") {
  SessionScalar s(quiet("O0"));
  const Tensor loss = sum(s.p * 2);
  amp::scale_loss(loss, s.optimizer, [&](const Tensor& same) {
    CHECK(same.is_same(loss));
    same.backward();
  });
  CHECK(s.p.grad().item<double>() == 2);
  CHECK(s.session.loss_scaler().unskipped() == 0);
}

// ---- overflow -----------------------------------------------------------------------------------

TEST_CASE("an overflow halves the scale and skips exactly one step") {
  LogCapture log;
  amp::Options options = quiet("O1");
  options.verbosity = 1;
  SessionScalar s(options, {.lr = 1, .momentum = 0.9});
  log.lines.clear();
  s.backward(kInf);
  CHECK(s.session.loss_scaler().loss_scale() == 32768);
  s.optimizer.zero_grad();  // does not drop the skip
  s.backward(1);
  CHECK(s.optimizer.step() == StepResult::skipped);
  CHECK(log.lines ==
        std::vector<std::string>{
            "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0: inf "
            "at [] of parameter 0; normal in the first steps, until the scale fits"});
  CHECK(s.p.item<double>() == 0);
  CHECK(s.optimizer.consecutive_skips() == 1);
  CHECK(s.p.grad().item<double>() == 1);
  CHECK(s.optimizer.step() == StepResult::stepped);
  CHECK(s.p.item<double>() == -1);
  CHECK(s.optimizer.consecutive_skips() == 0);
}

TEST_CASE("several overflows before a step make one skip") {
  SessionScalar s(quiet("O1"));
  s.backward(kInf);
  s.backward(std::nan(""));
  CHECK(s.session.loss_scaler().loss_scale() == 16384);
  CHECK(s.optimizer.step() == StepResult::skipped);
  s.optimizer.zero_grad();
  s.backward(1);
  CHECK(s.optimizer.step() == StepResult::stepped);
}

TEST_CASE("only incoming gradients are checked, never the stash") {
  SessionScalar s(quiet("O1"));
  s.backward(kInf);
  s.backward(1);  // added to the infinity, which is not detected again
  CHECK(s.session.loss_scaler().loss_scale() == 32768);
  CHECK(s.session.loss_scaler().unskipped() == 1);
  CHECK(s.optimizer.step() == StepResult::skipped);
}

TEST_CASE("static scales step on infinities, or skip with check_static_overflow") {
  amp::Options never = scaled_options(128);
  never.max_consecutive_skips = 0;  // else the step is an error
  SessionScalar stubborn(never);
  stubborn.backward(kInf);
  CHECK(stubborn.optimizer.step() == StepResult::stepped);
  CHECK(stubborn.p.item<double>() == -kInf);
  CHECK(stubborn.session.loss_scaler().unskipped() == 1);
  amp::Options options = scaled_options(128);
  options.check_static_overflow = true;
  SessionScalar careful(options);
  careful.backward(kInf);
  CHECK(careful.optimizer.step() == StepResult::skipped);
  CHECK(careful.session.loss_scaler().loss_scale() == 128);
}

TEST_CASE("a skipped step leaves weights, masters and state bitwise as they were") {
  const std::string level = GENERATE("O1", "O2");
  Net net;
  optim::Adam optimizer(net.parameters(), {.lr = 0.01});
  const auto session = amp::initialize(net, optimizer, quiet(level.c_str()));
  for (int i = 0; i < 3; ++i) train_step(net, optimizer);
  const auto snapshot = [&] {
    std::vector<std::vector<double>> out{weights(net)};
    for (const auto& [key, tensor] : optimizer.state_dict().tensors) out.push_back(values(tensor));
    return out;
  };
  const auto before = snapshot();
  CHECK(train_step(net, optimizer, 1e30) == StepResult::skipped);
  CHECK(snapshot() == before);
  CHECK(train_step(net, optimizer) == StepResult::stepped);
  CHECK(snapshot() != before);
}

TEST_CASE("repeated overflow ends in an error that names the gradient") {
  Net net;
  optim::SGD optimizer(net.parameters());
  amp::Options options = quiet("O1");
  options.max_consecutive_skips = 3;
  auto session = amp::initialize(net, optimizer, options);
  CHECK(train_step(net, optimizer, kInf) == StepResult::skipped);
  CHECK(train_step(net, optimizer, kInf) == StepResult::skipped);
  CHECK_THROWS_WITH_AS_TEXT(
      train_step(net, optimizer, kInf), amp::DivergenceError,
      "step(optimizer 0): 3 consecutive steps skipped; got nan at [0,0] of first.weight (first "
      "non-finite gradient), loss inf since step 1, loss scale 8192, expected finite; the loss is "
      "not finite from the start");
  CHECK(optimizer.consecutive_skips() == 0);
  CHECK(train_step(net, optimizer, kInf) == StepResult::skipped);
}

// ---- several losses, several optimizers ---------------------------------------------------------

TEST_CASE("each loss has its own scaler") {
  amp::Options options = quiet("O1");
  options.num_losses = 2;
  SessionScalar s(options);
  s.backward(1, {.loss_id = 0});
  s.backward(kInf, {.loss_id = 1});
  CHECK(s.session.loss_scaler(0).loss_scale() == 65536);
  CHECK(s.session.loss_scaler(1).loss_scale() == 32768);
  CHECK(s.optimizer.step() == StepResult::skipped);
  CHECK_THROWS_AS(s.backward(1, {.loss_id = 2}), ValueError);
  CHECK_THROWS_AS(s.backward(1, {.loss_id = -1}), ValueError);
  CHECK_THROWS_AS(s.session.loss_scaler(2), IndexError);
}

TEST_CASE("an overflow skips exactly the optimizers of its scope") {
  const Tensor a = tensor(0.0).requires_grad_(), b = tensor(0.0).requires_grad_();
  optim::SGD first({a}, {.lr = 1}), second({b}, {.lr = 1});
  const auto session = amp::initialize(amp::ModelList{}, {first, second}, quiet("O1"));
  const auto backward = [](const Tensor& loss) { loss.backward(); };
  amp::scale_loss(sum(a * kInf), first, backward);
  amp::scale_loss(sum(b), second, backward);
  CHECK(first.step() == StepResult::skipped);
  CHECK(second.step() == StepResult::stepped);
  amp::scale_loss(sum(a + b * kInf), {first, second}, backward);
  CHECK(first.step() == StepResult::skipped);
  CHECK(second.step() == StepResult::skipped);
}

TEST_CASE("a parameter of two optimizers is unscaled once") {
  const std::string level = GENERATE("O0", "O2");
  Net net;
  optim::SGD first(net.parameters(), {.lr = 0.1}), second({net.first.weight}, {.lr = 0.1});
  const auto session = amp::initialize(net, {first, second}, scaled_options(16, level.c_str()));
  Net reference;
  loss_of(reference).backward();
  for (int i = 1; i <= 2; ++i) {
    amp::scale_loss(loss_of(net), {first, second}, [](const Tensor& loss) { loss.backward(); });
    const Tensor g = second.params()[0].grad();
    CHECK(g.is_same(first.params()[0].grad()));
    CHECK(values(g)[0] == Approx(i * values(reference.first.weight.grad())[0]).epsilon(0.02));
  }
}

// ---- the scope itself ---------------------------------------------------------------------------

TEST_CASE("the scope form works like the function form") {
  SessionScalar s(scaled_options(256));
  auto scope = amp::scale_loss(sum(s.p * 3), s.optimizer);
  scope.loss().backward();
  CHECK_THROWS_WITH_AS_TEXT(s.optimizer.step(), StateError,
                            "a scale_loss scope over this optimizer is open");
  CHECK_THROWS_WITH_AS_TEXT(amp::scale_loss(sum(s.p), s.optimizer), StateError,
                            "nested scale_loss over one optimizer");
  CHECK_THROWS_AS(s.session.close(), StateError);
  scope.close();
  CHECK_THROWS_AS(scope.close(), StateError);
  CHECK_THROWS_AS(scope.loss(), StateError);
  CHECK(s.p.grad().item<double>() == 3);
  {
    const auto left_open = amp::scale_loss(sum(s.p), s.optimizer);
    left_open.loss().backward();
  }
  CHECK(s.p.grad().item<double>() == 4);
}

TEST_CASE("a body that throws changes nothing") {
  SessionScalar s(quiet("O1"));
  s.backward(5);
  const auto fails = [&](const Tensor& loss) {
    loss.backward();
    throw std::runtime_error("no");
  };
  CHECK_THROWS_AS(amp::scale_loss(sum(s.p * kInf), s.optimizer, fails), std::runtime_error);
  CHECK(s.p.grad().item<double>() == 5);
  CHECK(s.session.loss_scaler().loss_scale() == 65536);
  CHECK(s.session.loss_scaler().unskipped() == 1);
  try {
    const auto scope = amp::scale_loss(sum(s.p * kInf), s.optimizer);
    fails(scope.loss());
  } catch (const std::runtime_error&) {}
  CHECK(s.p.grad().item<double>() == 5);
  CHECK(s.optimizer.step() == StepResult::stepped);
  CHECK(s.p.item<double>() == -5);
}

TEST_CASE("scopes need a session") {
  const Tensor p = tensor(0.0).requires_grad_();
  optim::SGD optimizer({p});
  const auto nothing = [](const Tensor&) {};
  CHECK_THROWS_WITH_AS_TEXT(amp::scale_loss(sum(p), optimizer, nothing), StateError,
                            "SGD is attached to no session");
  CHECK_THROWS_AS(amp::scale_loss(sum(p), amp::OptimizerList{}, nothing), StateError);
  SessionScalar one(quiet("O1")), two(quiet("O1"));
  CHECK_THROWS_WITH_AS_TEXT(amp::scale_loss(sum(p), {one.optimizer, two.optimizer}, nothing),
                            StateError, "different sessions");
  amp::scale_loss(sum(p), amp::OptimizerList{},
                  [](const Tensor& loss) { CHECK(loss.requires_grad()); });
}

TEST_CASE("the casts of weights end with the scope") {
  Net net;
  optim::SGD optimizer(net.parameters());
  auto session = amp::initialize(net, optimizer, quiet("O4"));
  const Tensor loss = loss_of(net);
  CHECK(session.cast_cache().report().entries == 4);
  amp::scale_loss(loss, optimizer, [](const Tensor& l) { l.backward(); });
  CHECK(session.cast_cache().report().entries == 0);
}
