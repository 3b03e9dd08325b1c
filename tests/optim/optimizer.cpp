#include <mezzo.h>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;
using optim::StepResult;

namespace {

Tensor parameter_of(std::vector<double> values, DType dtype = f32) {
  return tensor(values, {.dtype = dtype}).requires_grad_();
}

std::vector<float> values(const Tensor& x) { return x.to_vector<float>(); }

/** Sets the given gradient for all parameters and steps. */
void step_on(optim::Optimizer& optimizer, const std::vector<Tensor>& params, double gradient) {
  for (const Tensor& p : params) p.set_grad(full(p.shape(), gradient, {.dtype = p.dtype()}));
  optimizer.step();
}

}  // namespace

TEST_CASE("a step before any backward is an error") {
  const Tensor p = parameter_of({1, 2});
  optim::SGD optimizer({p}, {.lr = 0.1});
  CHECK_THROWS_WITH(
      optimizer.step(),
      "SGD.step: no parameter has a gradient; got 0 gradients for parameters: 1, expected a "
      "backward pass before the step; call loss.backward() after zero_grad() and before step()");
  CHECK_THROWS_AS(optimizer.step(), StateError);
  sum(p * p).backward();
  CHECK(optimizer.step() == StepResult::stepped);
  CHECK(values(p) == std::vector<float>{0.8f, 1.6f});
}

TEST_CASE("a step without trainable parameters does nothing") {
  const Tensor frozen = tensor(1.0);
  optim::Adam optimizer({frozen});
  CHECK(optimizer.step() == StepResult::no_grads);
}

TEST_CASE("parameters without a gradient are skipped, and each counts its own steps") {
  const Tensor a = parameter_of({1}), b = parameter_of({1}), alone = parameter_of({1});
  optim::Adam both({a, b}, {.lr = 0.1}), one({alone}, {.lr = 0.1});
  step_on(both, {a}, 0.5);
  step_on(both, {a}, 0.5);
  a.set_grad({});
  CHECK(values(b) == std::vector<float>{1});
  step_on(both, {b}, 0.5);
  step_on(one, {alone}, 0.5);
  CHECK(values(b) == values(alone));
  CHECK(both.slots(0)[0].steps == 2);
  CHECK(both.slots(0)[1].steps == 1);
}

TEST_CASE("zero_grad removes gradients or fills them") {
  const Tensor p = parameter_of({1, 2});
  optim::SGD optimizer({p});
  sum(p * p).backward();
  optimizer.zero_grad(false);
  CHECK(values(p.grad()) == std::vector<float>{0, 0});
  sum(p).backward();  // a gradient that repeats one element
  p.set_grad(ones({1}).expand({2}));
  optimizer.zero_grad(false);
  CHECK(values(p.grad()) == std::vector<float>{0, 0});
  optimizer.zero_grad();
  CHECK(!p.grad().defined());
}

TEST_CASE("each group has its own options") {
  const Tensor a = parameter_of({1}), b = parameter_of({1}), c = parameter_of({1});
  optim::SGD optimizer({{{a}, {.lr = 0.5}}, {{b}, {.lr = 0.25}}});
  optimizer.add_param_group({c}, {.lr = 1});
  REQUIRE(optimizer.num_groups() == 3);
  step_on(optimizer, {a, b, c}, 1);
  CHECK(a.item<float>() == 0.5f);
  CHECK(b.item<float>() == 0.75f);
  CHECK(c.item<float>() == 0);
  optimizer.set_lr(0.125, 1);
  CHECK(optimizer.options(1).lr == 0.125);
  optimizer.set_lr(2);
  CHECK(optimizer.lr(2) == 2);
  CHECK_THROWS_AS(optimizer.lr(3), IndexError);
  CHECK_THROWS_AS(optimizer.set_lr(-1), ValueError);
}

TEST_CASE("add_param_group refuses tensors that cannot be trained, and changes nothing") {
  const Tensor a = parameter_of({1}), b = parameter_of({1});
  optim::Adam optimizer({a});
  CHECK_THROWS_WITH_AS_TEXT((optimizer.add_param_group({b, a}, {})), ValueError,
                            "parameter 1 belongs to another group already");
  CHECK_THROWS_WITH_AS_TEXT((optimizer.add_param_group({b, b}, {})), ValueError,
                            "parameter 1 is in the group twice");
  CHECK_THROWS_AS(optimizer.add_param_group({Tensor{}}, {}), ValueError);
  CHECK_THROWS_AS(optimizer.add_param_group({tensor(1.0, {.dtype = i64})}, {}), DtypeError);
  CHECK_THROWS_AS(optimizer.add_param_group({b * 2}, {}), StateError);
  CHECK_THROWS_AS(optimizer.add_param_group({b}, {.lr = -1}), ValueError);
  CHECK(optimizer.num_groups() == 1);
  CHECK(optimizer.params().size() == 1);
}

TEST_CASE("options out of range are refused by name") {
  const std::vector<Tensor> params{parameter_of({1})};
  CHECK_THROWS_WITH(optim::Adam(params, {.betas = {0.9, 1.0}}),
                    "Adam: betas.second is out of range; got 1, expected a number in [0, 1)");
  CHECK_THROWS_AS(optim::AdamW(params, {.eps = -1}), ValueError);
  CHECK_THROWS_AS(optim::AdamW(params, {.weight_decay = std::nan("")}), ValueError);
  CHECK_THROWS_AS(optim::SGD(params, {.lr = -1}), ValueError);
  CHECK_THROWS_AS(optim::SGD(params, {.momentum = -1}), ValueError);
  CHECK_THROWS_WITH_AS_TEXT((optim::SGD(params, {.nesterov = true})), ValueError,
                            "nesterov needs momentum");
  CHECK_THROWS_AS(optim::SGD(params, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}),
                  ValueError);
}

TEST_CASE("momentum that is enabled later starts from the gradient of that step") {
  const Tensor p = parameter_of({0});
  optim::SGD optimizer({p}, {.lr = 1});
  step_on(optimizer, {p}, 1);
  optimizer.set_options({.lr = 1, .momentum = 0.5, .dampening = 0.5});
  step_on(optimizer, {p}, 1);
  CHECK(p.item<float>() == -2);
}

TEST_CASE("state memory is accounted as optimizer state") {
  const Tensor p = parameter_of({1, 2, 3});
  optim::Adam optimizer({p});
  step_on(optimizer, {p}, 1);
  CHECK(optimizer.slots(0)[0].state[0].impl()->storage->category() ==
        MemoryCategory::optimizer_state);
}

// ---- state_dict ---------------------------------------------------------------------------------

namespace {

struct Pair {
  Tensor a = parameter_of({1, 2}), b = parameter_of({3});
  optim::Adam optimizer{{{{a}, {.lr = 0.1}}, {{b}, {.lr = 0.2, .weight_decay = 0.5}}}};

  void train(int steps) {
    for (int t = 0; t < steps; ++t) step_on(optimizer, {a, b}, 0.25 * (t % 3) + 0.1);
  }
};

}  // namespace

TEST_CASE("training continues with the same bits after saving and loading the state") {
  Pair original;
  original.train(3);
  const optim::StateDict saved = original.optimizer.state_dict();
  CHECK(saved.tensors.count("0.exp_avg") == 1);
  CHECK(saved.tensors.count("1.exp_avg_sq") == 1);
  CHECK(saved.scalars.at("1.step") == 3);
  CHECK(saved.scalars.at("param_groups.1.weight_decay") == 0.5);
  Pair copy;
  copy.a.detach().copy_(original.a.detach());
  copy.b.detach().copy_(original.b.detach());
  copy.optimizer.set_lr(7);
  copy.optimizer.load_state_dict(saved);
  CHECK(copy.optimizer.lr(0) == 0.1);
  original.train(4);  // the saved state is a copy and must not change
  copy.train(4);
  CHECK(values(copy.a) == values(original.a));
  CHECK(values(copy.b) == values(original.b));
}

TEST_CASE("state is keyed by name if names are given") {
  Pair pair;
  pair.train(1);
  const optim::Names names{{"fc.bias", pair.b}, {"fc.weight", pair.a}};
  const optim::StateDict saved = pair.optimizer.state_dict(names);
  CHECK(saved.tensors.count("fc.weight.exp_avg") == 1);
  CHECK(saved.scalars.count("fc.bias.step") == 1);
  Pair other;
  CHECK_NOTHROW(other.optimizer.load_state_dict(
      saved, optim::Names{{"fc.bias", other.b}, {"fc.weight", other.a}}));
  CHECK(other.optimizer.slots(1)[0].steps == 1);
  CHECK_THROWS_WITH_AS_TEXT((pair.optimizer.state_dict(optim::Names{{"fc.bias", pair.b}})),
                            ValueError, "parameter 0 of the optimizer has no name");
}

TEST_CASE("a mismatched state is refused as a whole") {
  Pair pair;
  pair.train(2);
  const optim::StateDict before = pair.optimizer.state_dict();
  const auto refused = [&](auto spoil, const std::string& complaint) {
    optim::StateDict spoilt = pair.optimizer.state_dict();
    spoilt.scalars["param_groups.0.lr"] = 99;  // valid, but must not be applied
    spoil(spoilt);
    CHECK_THROWS_WITH_AS_TEXT((pair.optimizer.load_state_dict(spoilt)), ValueError, complaint);
    CHECK(pair.optimizer.lr(0) == 0.1);
    CHECK(values(pair.optimizer.slots(0)[0].state[0]) == values(before.tensors.at("0.exp_avg")));
  };
  refused([](optim::StateDict& d) { d.tensors.erase("0.exp_avg"); }, "missing 0.exp_avg");
  refused([](optim::StateDict& d) { d.tensors["2.exp_avg"] = zeros({1}); }, "unexpected 2.exp_avg");
  refused([](optim::StateDict& d) { d.tensors["0.exp_avg"] = zeros({3}); },
          "mismatched 0.exp_avg is f32[3]@cpu for f32[2]@cpu");
  refused([](optim::StateDict& d) { d.tensors["0.exp_avg"] = Tensor{}; },
          "mismatched 0.exp_avg is undefined");
  refused([](optim::StateDict& d) { d.scalars.erase("param_groups.1.eps"); },
          "missing param_groups.1.eps");
  refused([](optim::StateDict& d) { d.scalars["param_groups.1.size"] = 2; },
          "param_groups.1.size = 2 for 1 parameters");
  refused([](optim::StateDict& d) { d.scalars["0.step"] = 1.5; }, "mismatched 0.step = 1.5");
  refused([](optim::StateDict& d) { d.scalars["1.step"] = std::nan(""); },
          "mismatched 1.step = nan");
  refused([](optim::StateDict& d) { d.scalars["what"] = 1; }, "unexpected what");
  refused([](optim::StateDict& d) { d.scalars["param_groups.1.eps"] = -1; }, "eps is out of range");
}

TEST_CASE("16-bit state is loaded as f32") {
  Pair pair;
  pair.train(1);
  optim::StateDict saved = pair.optimizer.state_dict();
  saved.tensors["0.exp_avg"] = saved.tensors["0.exp_avg"].to(f16);
  pair.optimizer.load_state_dict(saved);
  CHECK(pair.optimizer.slots(0)[0].state[0].dtype() == f32);
}

TEST_CASE("a saved master is loaded if it rounds to the parameter, else reported") {
  std::vector<std::string> lines;
  const LogSink former =
      set_log_sink([&](Severity, std::string_view line) { lines.emplace_back(line); });
  const Tensor p = parameter_of({1, 2}, f16);
  optim::SGD optimizer({p});
  optimizer.slots(0)[0].master = parameter_of({1, 2});
  optim::StateDict saved = optimizer.state_dict();
  saved.tensors["0.master"] = tensor({1.0001, 1.9999});
  optimizer.load_state_dict(saved);
  CHECK(values(optimizer.slots(0)[0].master) == std::vector<float>{1.0001f, 1.9999f});
  CHECK(lines.empty());
  saved.tensors["0.master"] = tensor({1.5, 1.9999});
  optimizer.load_state_dict(saved);
  CHECK(values(optimizer.slots(0)[0].master) == std::vector<float>{1.0001f, 1.9999f});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("kept: 0") != std::string::npos);
  set_log_sink(former);
}

TEST_CASE("an optimizer keeps only the states that its options need") {
  const auto kept = [](const optim::Optimizer& optimizer) {
    std::string text;
    for (const Tensor& state : optimizer.slots(0)[0].state) text += state.defined() ? '1' : '0';
    return text;
  };
  const auto after_a_step = [&](const auto& make) {
    const Tensor p = ones({3}).requires_grad_();
    const auto optimizer = make(p);
    p.set_grad(ones({3}));
    optimizer->step();
    return kept(*optimizer);
  };
  const auto rmsprop = [&](double momentum, bool centered) {
    return after_a_step([=](const Tensor& p) {
      return std::make_unique<optim::RMSprop>(
          std::vector{p}, optim::RMSpropOptions{.momentum = momentum, .centered = centered});
    });
  };
  CHECK(rmsprop(0, false) == "100");
  CHECK(rmsprop(0.9, false) == "110");
  CHECK(rmsprop(0, true) == "101");
  CHECK(rmsprop(0.9, true) == "111");
  for (const bool amsgrad : {false, true})
    CHECK(after_a_step([&](const Tensor& p) {
            return std::make_unique<optim::Adam>(std::vector{p},
                                                 optim::AdamOptions{.amsgrad = amsgrad});
          }) == (amsgrad ? "111" : "110"));
}

TEST_CASE("options that are off in most programs are saved only if they are on") {
  const Tensor p = ones({3}).requires_grad_();
  optim::Adam plain({p}, {}), changed({p}, {.amsgrad = true, .maximize = true});
  p.set_grad(ones({3}));
  plain.step();
  changed.step();
  CHECK(plain.state_dict().scalars.count("param_groups.0.amsgrad") == 0);
  CHECK(changed.state_dict().scalars.count("param_groups.0.amsgrad") == 1);
  CHECK(changed.state_dict().scalars.count("param_groups.0.maximize") == 1);
  CHECK_THROWS_WITH_AS_TEXT(plain.load_state_dict(changed.state_dict()), ValueError, "unexpected");
  CHECK_THROWS_WITH_AS_TEXT(changed.load_state_dict(plain.state_dict()), ValueError, "missing");
  optim::Adam same({p}, {.amsgrad = true, .maximize = true});
  same.load_state_dict(changed.state_dict());
  CHECK(same.slots(0)[0].state[2].to_vector<float>() ==
        changed.slots(0)[0].state[2].to_vector<float>());
}
