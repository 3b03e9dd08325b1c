// The rules of scopes and of optimizers under a session one by one, beyond the scripted and random
// tests.
#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"
#include "nets.h"

using namespace nets;
using amp::StepResult;

namespace {

amp::Options scope_options(const char* level, amp::LossScale scale) {
  amp::Options options = quiet(level);
  options.loss_scale = scale;
  return options;
}

/** One f32 parameter of three elements under SGD. */
struct Triple {
  explicit Triple(const amp::Options& options, DType dtype = f32)
      : p(zeros({3}, {.dtype = dtype}).requires_grad_()),
        optimizer({p}, {.lr = 1}),
        session(amp::initialize({}, optimizer, options)) {}
  void backward(double g, const amp::ScaleLossOptions& options = {}) {
    amp::scale_loss(sum(p * g), optimizer, options, run_backward);
  }
  double grad() const { return p.grad().select(0, 0).item<double>(); }
  Tensor p;
  optim::SGD optimizer;
  amp::Session session;
};

}  // namespace

// ---- scopes -------------------------------------------------------------------------------------

TEST_CASE("a scope unscales by the scale at its start", "[scope]") {
  Triple t(scope_options("O0", 64.0));
  amp::scale_loss(sum(t.p), t.optimizer, [&](const Tensor& loss) {
    loss.backward();
    t.session.loss_scaler().set_loss_scale(4);
  });
  CHECK(t.grad() == 1);
}

TEST_CASE("gradients from before a delayed sequence are not divided again", "[scope]") {
  Triple t(scope_options("O0", 64.0));
  t.backward(5);
  t.backward(1, {.delay_unscale = true});
  t.backward(2);
  CHECK(t.grad() == 8);
}

TEST_CASE("nested scopes are refused at every level; losses of any shape are scaled", "[scope]") {
  for (const char* level : levels::names()) {
    INFO(level);
    Triple t(quiet(level));
    const auto scope = amp::scale_loss(sum(t.p), t.optimizer);
    CHECK_THROWS_WITH_AS_TEXT(amp::scale_loss(sum(t.p), t.optimizer), StateError,
                              "nested scale_loss");
  }
  Triple t(scope_options("O0", 8.0));
  amp::scale_loss(t.p * 2, t.optimizer, [](const Tensor& loss) {
    CHECK(loss.shape() == Shape{3});
    loss.backward(ones({3}));
  });
  CHECK(t.grad() == 2);
}

TEST_CASE("a scope divides by the scale: 1/scale, rounded once for f32 and kept for f64",
          "[scope]") {
  Triple single(scope_options("O0", 3.0)), wide(scope_options("O0", 3.0), f64);
  const auto set_gradient = [](const Triple& t) {
    return [&t](const Tensor&) { t.p.set_grad(full_like(t.p, 5)); };
  };
  amp::scale_loss(sum(single.p), single.optimizer, set_gradient(single));
  amp::scale_loss(sum(wide.p), wide.optimizer, set_gradient(wide));
  CHECK(single.grad() == static_cast<double>(5.0f * static_cast<float>(1.0 / 3)));
  CHECK(wide.grad() == 5.0 * (1.0 / 3));
}

TEST_CASE("new gradients are accumulated in their own memory, existing ones keep theirs",
          "[scope]") {
  Triple t(scope_options("O0", 64.0));
  t.backward(5);
  const Tensor former = t.p.grad();
  Tensor fresh;
  amp::scale_loss(sum(t.p), t.optimizer, [&](const Tensor& loss) {
    loss.backward();
    fresh = t.p.grad();
    CHECK_FALSE(fresh.is_same(former));
  });
  CHECK(t.p.grad().raw_data() == fresh.raw_data());
  CHECK(t.grad() == 6);
  amp::scale_loss(sum(t.p), t.optimizer, [](const Tensor&) {});
  CHECK(t.p.grad().raw_data() == fresh.raw_data());
}

TEST_CASE("unscaling f16 gradients in place is logged once", "[scope]") {
  LogCapture log;
  amp::Options options = scope_options("O3", 128.0);
  options.verbosity = 1;
  Net net;
  optim::SGD optimizer(net.parameters());
  const auto session = amp::initialize(net, optimizer, options);
  log.lines.clear();
  for (int i = 0; i < 3; ++i) train_step(net, optimizer);
  REQUIRE(log.lines.size() == 1);
  CHECK(log.lines[0].find("unscaling 16-bit gradients in place") != std::string::npos);
}

// ---- skips --------------------------------------------------------------------------------------

TEST_CASE("the message names the first loss that overflowed, and its current scale", "[scope]") {
  LogCapture log;
  amp::Options options = quiet("O1");
  options.verbosity = 1;
  options.num_losses = 2;
  Triple t(options);
  log.lines.clear();
  t.backward(HUGE_VAL, {.loss_id = 1});
  t.backward(HUGE_VAL, {.loss_id = 0});
  t.backward(HUGE_VAL, {.loss_id = 1});
  CHECK(t.optimizer.step() == StepResult::skipped);
  CHECK(log.lines ==
        std::vector<std::string>{
            "Gradient overflow.  Skipping step, loss scaler 1 reducing loss scale to 16384.0: inf "
            "at [0] of parameter 0; normal in the first steps, until the scale fits"});
}

TEST_CASE("a skipped step keeps the masters' gradients and the model's", "[scope]") {
  Net net;
  optim::SGD optimizer(net.parameters());
  const auto session = amp::initialize(net, optimizer, quiet("O2"));
  CHECK(train_step(net, optimizer, HUGE_VAL) == StepResult::skipped);
  CHECK(optimizer.params()[0].grad().defined());
  CHECK(net.first.weight.grad().defined());
}

TEST_CASE("static scales step on infinities at every level", "[scope]") {
  for (const char* level : {"O3", "O4", "O5"}) {
    INFO(level);
    Net net;
    optim::SGD optimizer(net.parameters());
    amp::Options options = quiet(level);
    options.max_consecutive_skips = 0;  // else the step is an error
    const auto session = amp::initialize(net, optimizer, options);
    CHECK(train_step(net, optimizer, HUGE_VAL) == StepResult::stepped);
    CHECK_FALSE(all(isfinite(net.second.weight)).item<bool>());
  }
}

TEST_CASE("divergence is reported without gradients too, and no_grads does not count", "[scope]") {
  amp::Options options = quiet("O1");
  options.max_consecutive_skips = 2;
  Triple t(options);
  t.backward(HUGE_VAL);
  CHECK(t.optimizer.step() == StepResult::skipped);
  t.optimizer.zero_grad();
  t.p.requires_grad_(false);
  CHECK(t.optimizer.step() == StepResult::no_grads);
  CHECK(t.optimizer.consecutive_skips() == 1);
  t.p.requires_grad_(true);
  t.backward(HUGE_VAL);
  t.optimizer.zero_grad();
  CHECK_THROWS_WITH_AS_TEXT(
      t.optimizer.step(), amp::DivergenceError,
      "2 consecutive steps skipped; got no gradient that is still non-finite, loss nan since step "
      "1, loss scale 16384");
}

// ---- optimizers under a session -----------------------------------------------------------------

TEST_CASE("after a scope 16-bit gradients are still scaled, the master's are unscaled", "[scope]") {
  Net net;
  optim::SGD optimizer(net.parameters());
  const auto session = amp::initialize(net, optimizer, scope_options("O2", 1024.0));
  amp::scale_loss(loss_of(net), optimizer, run_backward);
  const auto low = values(net.first.weight.grad()), master = values(optimizer.params()[0].grad());
  for (std::size_t i = 0; i < low.size(); ++i) CHECK(master[i] == low[i] / 1024);
}

TEST_CASE("without zero_grad all parameters accumulate across steps", "[scope]") {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0});
  const auto session = amp::initialize(net, optimizer, scope_options("O2", 64.0));
  const auto step = [&] {
    amp::scale_loss(loss_of(net), optimizer, run_backward);
    const std::pair grads{values(optimizer.params()[0].grad()), values(net.norm.weight.grad())};
    CHECK(optimizer.step() == StepResult::stepped);
    return grads;
  };
  const auto [low_once, full_once] = step();
  const auto [low_twice, full_twice] = step();
  for (std::size_t i = 0; i < low_once.size(); ++i) CHECK(low_twice[i] == 2 * low_once[i]);
  for (std::size_t i = 0; i < full_once.size(); ++i)
    CHECK(full_twice[i] == Approx(2 * full_once[i]));
}

TEST_CASE("a master beyond the range of f16 makes the parameter infinite", "[scope]") {
  struct Line : nn::Model<Line> {
    Tensor weight = add_parameter("weight", ones({1, 1}));
    Tensor forward(const Tensor& x) const { return linear(x, weight); }
  } net;
  optim::SGD optimizer(net.parameters(), {.lr = 1e6});
  const auto session = amp::initialize(net, optimizer, scope_options("O2", 1.0));
  amp::scale_loss(sum(net(ones({1, 1}))), optimizer, run_backward);
  CHECK(optimizer.step() == StepResult::stepped);
  CHECK(optimizer.params()[0].item<double>() == 1 - 1e6);
  CHECK(net.weight.item<double>() == -HUGE_VAL);
}

TEST_CASE("f64 parameters are trained in f64, next to masters", "[scope]") {
  const Tensor p = tensor(1.0, {.dtype = f64}).requires_grad_();
  Net net;
  std::vector<Tensor> params = net.parameters();
  params.push_back(p);
  optim::Adam optimizer(params, {.lr = 0.1});
  const auto session = amp::initialize(net, optimizer, quiet("O2"));
  amp::scale_loss(loss_of(net) + sum(p * 1e-12).to(f32), optimizer, run_backward);
  CHECK(p.grad().item<double>() == Approx(1e-12));
  CHECK(optimizer.step() == StepResult::stepped);
  CHECK(p.dtype() == f64);
  CHECK(optimizer.params().back().is_same(p));
  CHECK(optimizer.slots(0).back().state[0].dtype() == f64);
}

TEST_CASE("zero_grad fills with zeros on request, and drops the masters' gradients", "[scope]") {
  for (const bool set_to_none : {true, false}) {
    Net net;
    optim::SGD optimizer(net.parameters());
    const auto session = amp::initialize(net, optimizer, quiet("O2"));
    amp::scale_loss(loss_of(net), optimizer, run_backward);
    optimizer.zero_grad(set_to_none);
    CHECK_FALSE(optimizer.params()[0].grad().defined());
    for (const Tensor& p : net.parameters())
      if (set_to_none)
        CHECK_FALSE(p.grad().defined());
      else
        CHECK(all(p.grad() == 0).item<bool>());
  }
}

TEST_CASE("master_params lists every parameter in order, frozen ones too", "[scope]") {
  Net net;
  net.second.requires_grad_(false);
  optim::SGD optimizer(net.second.parameters());
  optimizer.add_param_group(net.norm.parameters(), {});
  optimizer.add_param_group(net.first.parameters(), {});
  const auto session = amp::initialize(net, optimizer, quiet("O2"));
  const auto params = amp::master_params(optimizer);
  REQUIRE(params.size() == 5);
  CHECK(params[0].is_same(net.second.weight));  // frozen: no master yet
  CHECK(params[1].is_same(net.second.bias));
  CHECK(params[2].is_same(net.norm.weight));
  CHECK(params[3].dtype() == f32);
  CHECK(values(params[4].detach().to(f16)) == values(net.first.bias));
  optim::SGD alone({tensor(1.0).requires_grad_()});
  CHECK(amp::master_params(alone).size() == 1);
}

TEST_CASE("clipping on an overflowing iteration is harmless", "[scope]") {
  for (const double bad : {HUGE_VAL, std::nan("")}) {
    Net net;
    optim::SGD optimizer(net.parameters());
    const auto session = amp::initialize(net, optimizer, quiet("O2"));
    const auto before = weights(net);
    amp::scale_loss(loss_of(net) * bad, optimizer, run_backward);
    const double norm = optim::clip_grad_norm(amp::master_params(optimizer), 1).item<double>();
    CHECK_FALSE(std::isfinite(norm));
    CHECK(optimizer.step() == StepResult::skipped);
    CHECK(weights(net) == before);
  }
}

TEST_CASE("an added group keeps its gradients", "[scope]") {
  Net net;
  optim::SGD optimizer(net.second.parameters());
  const auto session = amp::initialize(net, optimizer, quiet("O1"));
  net.first.weight.set_grad(ones({8, 6}));
  optimizer.add_param_group(net.first.parameters(), {});
  CHECK(net.first.weight.grad().defined());
  CHECK_THROWS_AS(optimizer.add_param_group({net.first.weight}, {}), ValueError);
}
