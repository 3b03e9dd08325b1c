// Fused optimizers under mixed precision: gradients of several scopes, and unscaling within the
// update.
#include <mezzo.h>

#include <limits>

#include "../support/catch.h"
#include "../support/throws.h"
#include "nets.h"

using namespace mezzo;
using nets::values;
using optim::StepResult;

namespace {

amp::Session o2(const nn::Module& model, optim::Optimizer& optimizer, int num_losses = 1) {
  nn::Module handle = model;
  return amp::initialize(handle, optimizer,
                         {.opt_level = "O2", .num_losses = num_losses, .verbosity = 0});
}

/** A model of one weight, whose loss is the weight times a factor. */
struct Weight : nn::Model<Weight> {
  Tensor weight = add_parameter("weight", tensor({1.0, 2.0}));
  Tensor forward(const Tensor& x) const { return weight * x; }
};

void backward(Weight& model, optim::Optimizer& optimizer, double factor, int loss_id = 0) {
  amp::scale_loss(sum(model(full({2}, factor))), optimizer, {.loss_id = loss_id},
                  [](const Tensor& scaled) { scaled.backward(); });
}

}  // namespace

TEST_CASE("scopes of one iteration with different scales add up in the masters") {
  Weight model;
  optim::FusedSGD optimizer(model.parameters(), {.lr = 1});
  auto session = o2(model, optimizer, 2);
  session.loss_scaler(0).set_loss_scale(64);
  session.loss_scaler(1).set_loss_scale(16);
  const auto grad = [&] { return values(amp::master_params(optimizer)[0].grad())[0]; };
  backward(model, optimizer, 0.5, 0);
  CHECK(values(model.weight.grad())[0] == 32);  // still scaled by 64
  CHECK(grad() == 0.5);
  backward(model, optimizer, 0.25, 1);
  CHECK(grad() == 0.75);
  backward(model, optimizer, 0.125, 0);
  CHECK(grad() == 0.875);
  REQUIRE(optimizer.step() == StepResult::stepped);
  CHECK(values(amp::master_params(optimizer)[0])[0] == 1 - 0.875);

  backward(model, optimizer, 0.5, 0);  // without zero_grad the gradients accumulate
  CHECK(grad() == 0.875 + 0.5);
  optimizer.zero_grad();
  backward(model, optimizer, 0.5, 0);
  CHECK(grad() == 0.5);
}

TEST_CASE("a gradient that a scope does not change stays as it is") {
  struct Two : nn::Model<Two> {
    Tensor a = add_parameter("a", tensor({1.0})), b = add_parameter("b", tensor({1.0}));
    Tensor forward(const Tensor& x) const { return a * x; }
  } model;
  optim::FusedSGD optimizer(model.parameters(), {.lr = 1});
  auto session = o2(model, optimizer, 2);
  session.loss_scaler(0).set_loss_scale(64);
  session.loss_scaler(1).set_loss_scale(16);
  const auto pass = [&](const Tensor& weight, double factor, int loss_id) {
    amp::scale_loss(sum(weight * full({1}, factor, {.dtype = f16})), optimizer,
                    {.loss_id = loss_id}, [](const Tensor& scaled) { scaled.backward(); });
  };
  pass(model.b, 0.5, 0);
  pass(model.a, 0.25, 1);
  CHECK(values(amp::master_params(optimizer)[1].grad())[0] == 0.5);
  REQUIRE(optimizer.step() == StepResult::stepped);
  CHECK(values(model.b)[0] == 0.5);
  CHECK(values(model.a)[0] == 0.75);
}

TEST_CASE("FusedSGD on masters: clipping in the step, skips, gradients from outside a scope") {
  Weight model;
  optim::FusedSGD optimizer(model.parameters(), {.lr = 1});
  auto session = o2(model, optimizer);
  session.loss_scaler(0).set_loss_scale(64);
  backward(model, optimizer, 0.5);
  REQUIRE(optimizer.step({.max_norm = 0.25}) == StepResult::stepped);
  CHECK(values(amp::master_params(optimizer)[0])[0] ==
        Approx(1 - 0.25 / std::sqrt(2.0)).epsilon(1e-5));

  const std::vector<double> before = values(amp::master_params(optimizer)[0]);
  optimizer.zero_grad();
  backward(model, optimizer, 1e30);
  CHECK(optimizer.step() == StepResult::skipped);
  CHECK(values(amp::master_params(optimizer)[0]) == before);
  optimizer.zero_grad();
  backward(model, optimizer, 0.25);
  CHECK(values(model.weight.grad())[0] == 0.25 * 32);  // the scale was halved
  REQUIRE(optimizer.step() == StepResult::stepped);
  CHECK(values(amp::master_params(optimizer)[0])[0] == static_cast<float>(before[0]) - 0.25f);

  optimizer.zero_grad();
  model.weight.set_grad(ones({2}, {.dtype = f16}));
  CHECK_THROWS_WITH_AS_TEXT(optimizer.step(), StateError, "backward ran outside scale_loss");
}

TEST_CASE("a body that throws does not change gradients of an earlier scope") {
  Weight model;
  optim::FusedSGD optimizer(model.parameters(), {.lr = 1});
  auto session = o2(model, optimizer);
  session.loss_scaler(0).set_loss_scale(64);
  backward(model, optimizer, 0.5);
  CHECK_THROWS_AS(amp::scale_loss(sum(model(ones({2}))), optimizer,
                                  [](const Tensor& scaled) {
                                    scaled.backward();
                                    throw std::runtime_error("body");
                                  }),
                  std::runtime_error);
  CHECK(values(model.weight.grad())[0] == 32);
  REQUIRE(optimizer.step() == StepResult::stepped);
  CHECK(values(amp::master_params(optimizer)[0])[0] == 0.5);
}

TEST_CASE(
    "GradScaler leaves unscaling to a fused optimizer: the same bits, gradients unscaled in the "
    "end") {
  nets::Net a, b;
  optim::AdamW plain(a.parameters(), {.lr = 0.01, .weight_decay = 0.1});
  optim::FusedAdam fused(b.parameters(), {.lr = 0.01, .weight_decay = 0.1});
  amp::GradScaler of_plain, of_fused;
  const std::optional<double> max_norm =
      GENERATE(std::optional<double>{}, std::optional<double>{0.01});
  for (int t = 0; t < 5; ++t) {
    const auto step = [&](nets::Net& net, optim::Optimizer& optimizer, amp::GradScaler& scaler) {
      optimizer.zero_grad();
      const double factor = t == 2 ? 1e38 : 1;  // one overflow
      scaler.scale(nets::loss_of(net) * factor).backward();
      const StepResult result = scaler.step(optimizer, {.max_norm = max_norm});
      scaler.update();
      return result;
    };
    const StepResult expected = t == 2 ? StepResult::skipped : StepResult::stepped;
    CHECK(step(a, plain, of_plain) == expected);
    CHECK(step(b, fused, of_fused) == expected);
    for (std::size_t i = 0; i < a.parameters().size(); ++i) {
      CHECK(values(a.parameters()[i]) == values(b.parameters()[i]));
      if (t != 2 && !max_norm)
        CHECK(values(a.parameters()[i].grad()) == values(b.parameters()[i].grad()));
    }
  }
  CHECK(of_plain.get_scale() == of_fused.get_scale());
  CHECK(fused.slots(0)[0].steps == 4);
}

TEST_CASE("GradScaler accepts f16 gradients of fused optimizers and does not unscale twice") {
  const Tensor p = ones({2}, {.dtype = f16}).requires_grad_();
  optim::FusedAdagrad optimizer({p}, {.lr = 1});
  optim::Adam plain({p});
  amp::GradScaler scaler({.init_scale = 256});
  (void)scaler.scale(ones({}));
  p.set_grad(full({2}, 512, {.dtype = f16}));
  CHECK_THROWS_AS(scaler.step(plain), DtypeError);
  CHECK_THROWS_AS(scaler.unscale_(optimizer), DtypeError);
  CHECK(values(p.grad())[0] == 512);
  CHECK(scaler.step(optimizer) == StepResult::stepped);
  CHECK(values(p.grad())[0] == 2);
  CHECK(values(optimizer.slots(0)[0].state[0])[0] == 4);
  scaler.update();

  const Tensor q = ones({2}).requires_grad_();
  optim::FusedAdagrad wide({q}, {.lr = 1});
  q.set_grad(full({2}, 512));
  scaler.unscale_(wide);
  CHECK(scaler.step(wide) == StepResult::stepped);
  CHECK(values(q.grad())[0] == 2);
  scaler.update();
  q.set_grad(full({2}, std::numeric_limits<double>::infinity()));
  const std::vector<double> before = values(q);
  CHECK(scaler.step(wide) == StepResult::skipped);
  CHECK(values(q) == before);
  CHECK(wide.slots(0)[0].steps == 1);
}
