#include "nets.h"

#include "../../amp/scaling/gradients.h"
#include "../../amp/session_core.h"

#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"

using namespace nets;
using amp::StepResult;

namespace {

/** Returns whether a 16-bit parameter equals its rounded master. */
bool in_step(const optim::Slot& slot) {
  return !slot.master.defined() ||
         values(slot.master.detach().to(slot.param.dtype())) == values(slot.param);
}

}  // namespace

TEST_CASE("masters hold the values from before the conversion and replace the parameters",
          "[masters]") {
  Net net;
  const auto original = weights(net);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const auto session = amp::initialize(net, optimizer, quiet("O2"));
  const std::vector<Tensor> masters = optimizer.params(), params = net.parameters();
  REQUIRE(masters.size() == params.size());
  std::vector<double> held;
  for (std::size_t i = 0; i < masters.size(); ++i) {
    CHECK(masters[i].dtype() == f32);
    CHECK(masters[i].shape() == params[i].shape());
    CHECK(masters[i].is_same(params[i]) == (params[i].dtype() == f32));
    CHECK(in_step(optimizer.slots(0)[i]));
    for (const double x : values(masters[i])) held.push_back(x);
  }
  CHECK(held == original);
  CHECK(masters[0].impl()->storage->category() == MemoryCategory::masters);
}

TEST_CASE("O2 accumulates updates that are too small for f16", "[masters]") {
  Net with_masters, without;
  optim::SGD fine(with_masters.parameters(), {.lr = 1e-3}),
      coarse(without.parameters(), {.lr = 1e-3});
  const auto o2 = amp::initialize(with_masters, fine, quiet("O2"));
  const auto o3 = amp::initialize(without, coarse, quiet("O3"));
  const auto master = values(fine.params()[0]), half = values(coarse.params()[0]);
  for (int i = 0; i < 3; ++i) {
    CHECK(train_step(with_masters, fine) == StepResult::stepped);
    CHECK(train_step(without, coarse) == StepResult::stepped);
  }
  // The first weight is 0, and any update to it is large enough.
  CHECK(values(fine.params()[0])[1] != master[1]);
  CHECK(values(coarse.params()[0])[1] == half[1]);
  CHECK(values(coarse.params()[0])[0] != half[0]);
}

TEST_CASE("the step writes every 16-bit parameter and keeps the masters' gradients", "[masters]") {
  Net net;
  optim::Adam optimizer(net.parameters(), {.lr = 0.05});
  const auto session = amp::initialize(net, optimizer, quiet("O5"));
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    amp::scale_loss(loss_of(net), optimizer, [](const Tensor& loss) { loss.backward(); });
    CHECK(optimizer.params()[0].grad().dtype() == f32);
    CHECK(net.first.weight.grad().dtype() == bf16);
    optimizer.step();
    CHECK(optimizer.params()[0].grad().defined());
    for (const optim::Slot& slot : optimizer.slots(0)) CHECK(in_step(slot));
  }
}

TEST_CASE("micro-batches accumulate in f32", "[masters]") {
  Net one, two;
  optim::SGD a(one.parameters(), {.lr = 0.1}), b(two.parameters(), {.lr = 0.1});
  const auto first = amp::initialize(one, a, quiet("O2"));
  const auto second = amp::initialize(two, b, quiet("O2"));
  const auto backward = [](const Tensor& loss) { loss.backward(); };
  amp::scale_loss(loss_of(one), a, backward);
  const auto once = values(a.params()[0].grad());
  amp::scale_loss(loss_of(one), a, backward);
  for (std::size_t i = 0; i < once.size(); ++i)
    CHECK(values(a.params()[0].grad())[i] == 2 * once[i]);
  amp::scale_loss(loss_of(two), b, {.delay_unscale = true}, backward);
  CHECK_FALSE(b.params()[0].grad().defined());
  amp::scale_loss(loss_of(two), b, backward);
  for (std::size_t i = 0; i < once.size(); ++i)
    CHECK(values(b.params()[0].grad())[i] == Approx(2 * once[i]).epsilon(0.01).margin(1e-6));
}

TEST_CASE("a backward outside scale_loss is detected", "[masters]") {
  Net net;
  optim::SGD optimizer(net.parameters());
  const auto session = amp::initialize(net, optimizer, quiet("O2"));
  loss_of(net).backward();
  CHECK_THROWS_WITH_AS_TEXT(optimizer.step(), StateError,
                            "SGD.step: backward ran outside scale_loss");
  optimizer.zero_grad();
  CHECK_THROWS_WITH_AS_TEXT(
      optimizer.step(), StateError,
      "no parameter has a gradient; got 0 gradients for parameters: 5, expected a backward "
      "pass before the step; run it inside amp::scale_loss");
}

TEST_CASE("clipping applies to the masters' gradients", "[masters]") {
  Net net;
  optim::SGD optimizer(net.parameters());
  const auto session = amp::initialize(net, optimizer, quiet("O2"));
  amp::scale_loss(loss_of(net), optimizer, [](const Tensor& loss) { loss.backward(); });
  CHECK_THROWS_WITH_AS_TEXT(optim::clip_grad_norm(net.parameters(), 1), StateError,
                            "pass amp::master_params(optimizer)");
  CHECK_THROWS_AS(optim::clip_grad_value(net.parameters(), 1), StateError);
  const std::vector<Tensor> masters = amp::master_params(optimizer);
  optim::clip_grad_norm(masters, 0.01);
  CHECK(optim::clip_grad_norm(masters, 1).item<double>() == Approx(0.01).epsilon(1e-3));
}

TEST_CASE("a write to a parameter is kept", "[masters]") {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0});
  const auto session = amp::initialize(net, optimizer, quiet("O2"));
  const Tensor weight = net.first.weight.detach();
  const auto before = values(optimizer.params()[0]);
  weight.select(0, 0).fill_(2);
  CHECK(train_step(net, optimizer) == StepResult::stepped);
  const auto after = values(optimizer.params()[0]);
  for (std::size_t i = 0; i < after.size(); ++i) CHECK(after[i] == (i < 6 ? 2 : before[i]));
  CHECK(values(weight)[0] == 2);
}

TEST_CASE("a frozen parameter gets its master when it is unfrozen", "[masters]") {
  Net net;
  net.first.requires_grad_(false);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const auto session = amp::initialize(net, optimizer, quiet("O2"));
  CHECK(optimizer.params()[0].dtype() == f16);
  CHECK(train_step(net, optimizer) == StepResult::stepped);
  net.first.requires_grad_(true);
  const auto before = values(net.first.weight);
  for (int i = 0; i < 3; ++i) CHECK(train_step(net, optimizer) == StepResult::stepped);
  CHECK(optimizer.params()[0].dtype() == f32);
  CHECK(values(net.first.weight) != before);
}

TEST_CASE("groups added later get masters too", "[masters]") {
  Net net;
  optim::Adam optimizer(net.second.parameters(), {.lr = 0.05});
  const auto session = amp::initialize(net, optimizer, quiet("O2"));
  optimizer.add_param_group(net.first.parameters(), {.lr = 0.05});
  CHECK(optimizer.slots(1)[0].master.dtype() == f32);
  const auto before = values(net.first.weight);
  CHECK(train_step(net, optimizer) == StepResult::stepped);
  CHECK(values(net.first.weight) != before);
  CHECK(in_step(optimizer.slots(1)[0]));
}

TEST_CASE("optimizer state is f32 at every level", "[masters]") {
  const std::string level = GENERATE("O2", "O3", "O5");
  Net net;
  optim::Adam optimizer(net.parameters());
  const auto session = amp::initialize(net, optimizer, quiet(level.c_str()));
  train_step(net, optimizer);
  for (const auto& [key, tensor] : optimizer.state_dict().tensors) CHECK(tensor.dtype() == f32);
}

TEST_CASE("closing a session copies the masters' bits to the parameters", "[masters]") {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.01, .momentum = 0.9});
  auto session = amp::initialize(net, optimizer, quiet("O2"));
  for (int i = 0; i < 3; ++i) train_step(net, optimizer);
  std::vector<double> masters;
  for (const Tensor& m : optimizer.params())
    for (const double x : values(m)) masters.push_back(x);
  session.close();
  CHECK(weights(net) == masters);
  CHECK_NOTHROW(optim::clip_grad_norm(net.parameters(), 1));
  CHECK(optimizer.slots(0)[0].state[0].defined());
}

// ---- state and checkpoints ----------------------------------------------------------------------

TEST_CASE("a model's state is f32 and holds the masters' values", "[masters]") {
  Net net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.01});
  const auto session = amp::initialize(net, optimizer, quiet("O2"));
  train_step(net, optimizer);
  const nn::StateDict state = net.state_dict();
  for (const auto& [name, tensor] : state) CHECK((tensor.dtype() == f32 || tensor.dtype() == i64));
  CHECK(values(state["first.weight"]) == values(optimizer.params()[0]));
  CHECK(values(net.first.state_dict()["weight"]) == values(optimizer.params()[0]));
}

TEST_CASE("loading a model writes its masters", "[masters]") {
  Net source(0.25), net;
  optim::SGD optimizer(net.parameters(), {.lr = 0});
  const auto session = amp::initialize(net, optimizer, quiet("O2"));
  net.load_state_dict(source.state_dict());
  CHECK(values(optimizer.params()[0]) == values(source.first.weight));
  CHECK(values(net.first.weight) == values(source.first.weight.detach().to(f16)));
  train_step(net, optimizer);
  CHECK(values(optimizer.params()[0]) == values(source.first.weight));
}

TEST_CASE("training resumes with the same bits", "[masters]") {
  const std::string level = GENERATE(from_range(levels::names()));
  const bool load_first = GENERATE(false, true);
  const auto run = [](Net& net, optim::Optimizer& optimizer, int from, int to) {
    const bool may_overflow = amp::AmpOptimizerState::of(optimizer)->core->scalers[0]->dynamic();
    for (int i = from; i < to; ++i) train_step(net, optimizer, i == 4 && may_overflow ? 1e30 : 1);
  };
  Net net;
  optim::Adam optimizer(net.parameters(), {.lr = 0.02});
  const auto session = amp::initialize(net, optimizer, quiet(level.c_str()));
  run(net, optimizer, 0, 6);
  const nn::StateDict model_state = net.state_dict();
  const optim::StateDict optimizer_state = optimizer.state_dict(net.named_parameters());
  const amp::StateDict amp_state = amp::state_dict();
  run(net, optimizer, 6, 10);

  Net resumed(0.7);
  optim::Adam other(resumed.parameters());
  if (load_first) {
    resumed.load_state_dict(model_state);
    other.load_state_dict(optimizer_state, resumed.named_parameters());
  }
  auto second = amp::initialize(resumed, other, quiet(level.c_str()));
  if (!load_first) {
    resumed.load_state_dict(model_state);
    other.load_state_dict(optimizer_state, resumed.named_parameters());
  }
  second.load_state_dict(amp_state);
  run(resumed, other, 6, 10);
  CHECK(weights(resumed) == weights(net));
  CHECK(resumed.state_dict()["first.weight"].to_vector<double>() ==
        net.state_dict()["first.weight"].to_vector<double>());
  CHECK(amp::state_dict() == session.state_dict());
}

TEST_CASE("scalers are loaded by name or not at all", "[masters]") {
  LogCapture log;
  amp::Options options = quiet("O1");
  options.num_losses = 2;
  auto session = amp::initialize(amp::ModelList{}, options);
  const amp::StateDict fresh = session.state_dict();
  CHECK(fresh == amp::StateDict{{"loss_scaler0", {{"loss_scale", 65536}, {"unskipped", 0}}},
                                {"loss_scaler1", {{"loss_scale", 65536}, {"unskipped", 0}}}});
  const auto refused = [&](const amp::StateDict& saved) {
    CHECK_THROWS_AS(session.load_state_dict(saved), ValueError);
    CHECK(session.state_dict() == fresh);
  };
  const std::map<std::string, double> good{{"loss_scale", 8}, {"unskipped", 3}};
  refused({{"loss_scaler0", good}, {"loss_scaler", good}});
  refused({{"loss_scaler0", good}, {"scaler1", good}});
  refused({{"loss_scaler0", good}, {"loss_scaler01", good}});
  refused({{"loss_scaler0", good}, {"loss_scaler1", {{"loss_scale", 8}}}});
  refused({{"loss_scaler0", good},
           {"loss_scaler1", {{"loss_scale", 8}, {"unskipped", 3}, {"more", 1}}}});
  refused({{"loss_scaler0", good}, {"loss_scaler1", {{"loss_scale", 0}, {"unskipped", 3}}}});
  refused(
      {{"loss_scaler0", good}, {"loss_scaler1", {{"loss_scale", std::nan("")}, {"unskipped", 3}}}});
  refused({{"loss_scaler0", good}, {"loss_scaler1", {{"loss_scale", 8}, {"unskipped", -1}}}});
  refused({{"loss_scaler0", good}, {"loss_scaler1", {{"loss_scale", 8}, {"unskipped", 0.5}}}});
  session.load_state_dict({{"loss_scaler1", good}});
  CHECK(session.loss_scaler(0).loss_scale() == 65536);
  CHECK(session.loss_scaler(1).loss_scale() == 8);
  CHECK(session.loss_scaler(1).unskipped() == 3);
}

TEST_CASE("a different number of scalers is reported", "[masters]") {
  LogCapture log;
  amp::Options options = quiet("O1");
  options.verbosity = 1;
  auto session = amp::initialize(amp::ModelList{}, options);
  log.lines.clear();
  const std::map<std::string, double> entry{{"loss_scale", 8}, {"unskipped", 3}};
  session.load_state_dict({{"loss_scaler0", entry}, {"loss_scaler2", entry}});
  CHECK(log.lines == std::vector<std::string>{
                         "Warning: state_dict contains 2 entries, while 1 loss_scalers are used",
                         "Skipping loss_scaler[2], since num_losses was set to 1"});
  CHECK(session.loss_scaler().loss_scale() == 8);
}

TEST_CASE("there is no amp state without a session", "[masters]") {
  CHECK_THROWS_AS(amp::state_dict(), StateError);
  CHECK_THROWS_AS(amp::load_state_dict({}), StateError);
}
