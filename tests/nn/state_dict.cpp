// Saving and loading values by name.
#include "../../tensor/text/did_you_mean.h"
#include "support.h"

using namespace mezzo;

namespace {

struct Layer : nn::Model<Layer> {
  explicit Layer(std::int64_t n) : weight(add_parameter("weight", full({n, 2}, 0.25))) {}
  Tensor weight;
  Tensor bias = add_parameter("bias", zeros({2}));
  Tensor steps = add_buffer("steps", tensor(7, {.dtype = i64}));
  Tensor forward(const Tensor& x) const { return x * sum(weight) + bias; }
};

struct LayerNet : nn::Model<LayerNet> {
  Layer fc1 = add("fc1", Layer{3});
  Layer fc2 = add("fc2", Layer{4});
  Tensor forward(const Tensor& x) const { return fc2(fc1(x)); }
};

std::string load_error(const nn::Module& module, const nn::StateDict& dict, bool strict = true) {
  try {
    module.load_state_dict(dict, {.strict = strict});
  } catch (const ValueError& e) {
    return e.what();
  }
  return "no error";
}

/** Saves every value doubled and halves loaded values, in the role of the masters. */
struct Doubling final : nn::StateRule {
  Tensor save(const Tensor& x) const override { return x.detach() * 2; }
  void stage(const Tensor& x, const Tensor& value, PendingWrites& writes) const override {
    writes.add(x, value * 0.5);
  }
  void loaded(const Tensor&) const noexcept override {}
};

}  // namespace

TEST_CASE("state_dict holds copies under PyTorch's names") {
  const LayerNet net;
  const nn::StateDict dict = net.state_dict();
  CHECK(dict.names() == std::vector<std::string>{"fc1.weight", "fc1.bias", "fc1.steps",
                                                 "fc2.weight", "fc2.bias", "fc2.steps"});
  CHECK_FALSE(dict["fc1.bias"].requires_grad());
  {
    const NoGrad no_grad;
    net.fc1.bias.fill_(3);
  }
  CHECK(values(dict["fc1.bias"]) == std::vector<double>{0, 0});
  const LayerNet other;
  other.load_state_dict(net.state_dict());
  CHECK(values(other.fc1.bias) == std::vector<double>{3, 3});
  CHECK(other.fc1.bias.requires_grad());
  CHECK_FALSE(other.fc1.bias.is_same(net.fc1.bias));
}

TEST_CASE("loading converts dtypes") {
  const LayerNet net;
  nn::StateDict dict = net.state_dict();
  dict.set("fc1.bias", tensor({0.5, 1.5}, {.dtype = f16}));
  dict.set("fc1.steps", tensor(9, {.dtype = i32}));
  net.to(f64);
  net.load_state_dict(dict);
  CHECK(values(net.fc1.bias) == std::vector<double>{0.5, 1.5});
  CHECK(net.fc1.bias.dtype() == f64);
  CHECK(net.fc1.steps.item<std::int64_t>() == 9);
}

TEST_CASE("a strict load lists all mismatches at once and writes nothing") {
  const LayerNet net;
  nn::StateDict dict = net.state_dict();
  dict.erase("fc1.bias");
  dict.erase("fc2.steps");
  dict.set("fc1.baïs", ones({2}));
  dict.set("fc1.bias_", ones({2}));
  dict.set("elsewhere", ones({2}));
  dict.set("fc2.weight", ones({5, 2}));
  dict.set("fc2.bias", tensor({1, 2}, {.dtype = i64}));
  dict.set("fc1.weight", ones({3, 2}));
  const std::string text = load_error(net, dict);
  CHECK(text ==
        "load_state_dict: the values do not fit LayerNet; got 2 missing: \"fc1.bias\", "
        "\"fc2.steps\"; 3 "
        "unexpected: "
        "\"fc1.baïs\" (did you mean \"fc1.bias\"?), \"fc1.bias_\" (did you mean \"fc1.bias\"?), "
        "\"elsewhere\"; "
        "2 of "
        "wrong shape or kind: \"fc2.weight\" f32[5,2]@cpu for f32[4,2]@cpu, \"fc2.bias\" "
        "i64[2]@cpu for "
        "f32[2]@cpu; to leave them out, name them in .skip, or pass .ignore_mismatched_sizes = "
        "true");
  CHECK(values(net.fc1.weight) == std::vector<double>(6, 0.25));
  CHECK(load_error(net, dict, false).find("missing") == std::string::npos);
  CHECK(values(net.fc1.weight) == std::vector<double>(6, 0.25));
  dict.erase("fc2.weight");
  dict.erase("fc2.bias");
  CHECK(load_error(net, dict).find("pass {.strict = false}") != std::string::npos);
  const nn::LoadReport report = net.load_state_dict(dict, {.strict = false});
  CHECK(report.missing ==
        std::vector<std::string>{"fc1.bias", "fc2.weight", "fc2.bias", "fc2.steps"});
  CHECK(report.unexpected == std::vector<std::string>{"fc1.baïs", "fc1.bias_", "elsewhere"});
  CHECK(values(net.fc1.weight) == std::vector<double>(6, 1.0));
}

TEST_CASE("long lists are truncated") {
  struct Many : nn::Model<Many> {
    Many() {
      for (int i = 0; i < 30; ++i) add_parameter("p" + std::to_string(i), ones({1}));
    }
    Tensor forward(const Tensor& x) const { return x; }
  };
  const std::string text = load_error(Many{}, nn::StateDict{});
  CHECK(text.find("30 missing: \"p0\"") != std::string::npos);
  CHECK(text.find("\"p7\", and 22 more") != std::string::npos);
}

TEST_CASE("a tied tensor may be saved under one of its names") {
  struct Tied : nn::Model<Tied> {
    Tensor a = add_parameter("a", ones({2}));
    Tensor b = add_parameter("b", a);
    Tensor forward(const Tensor& x) const { return x * a + b; }
  };
  const Tied net;
  nn::StateDict dict = net.state_dict();
  CHECK(dict["a"].is_same(dict["b"]));
  dict = {{"a", full({2}, 4)}};
  net.load_state_dict(dict);
  CHECK(values(net.b) == std::vector<double>{4, 4});
}

TEST_CASE("a state rule transforms saved and loaded values") {
  const LayerNet net;
  for (const nn::NamedModule& entry : net.named_modules())
    entry.module.set_state_rule(std::make_shared<Doubling>());
  const nn::StateDict dict = net.state_dict();
  CHECK(values(dict["fc1.weight"]) == std::vector<double>(6, 0.5));
  CHECK(values(net.fc2.state_dict()["weight"]) == std::vector<double>(8, 0.5));
  net.load_state_dict(dict);
  CHECK(values(net.fc1.weight) == std::vector<double>(6, 0.25));
  CHECK(net.fc1.steps.item<std::int64_t>() == 7);
}

TEST_CASE("StateDict keeps order and refuses duplicates") {
  nn::StateDict dict{{"b", ones({1})}, {"a", ones({2})}};
  dict.set("c", ones({3}));
  dict.set("b", ones({4}));
  CHECK(dict.names() == std::vector<std::string>{"b", "a", "c"});
  CHECK(dict["b"].numel() == 4);
  CHECK(dict.erase("a"));
  CHECK_FALSE(dict.erase("a"));
  CHECK(dict.size() == 2);
  CHECK_THROWS_AS(dict["d"], ValueError);
  CHECK_THROWS_AS((nn::StateDict{{"x", ones({1})}, {"x", ones({1})}}), ValueError);
}

TEST_CASE("modules and optimizers save states of one type") {
  static_assert(std::is_same_v<nn::StateDict, StateDict>);
  static_assert(std::is_same_v<optim::StateDict, StateDict>);
  const LayerNet net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.5});
  StateDict state = optimizer.state_dict();
  CHECK(state.numbers.at("param_groups.0.lr") == 0.5);
  CHECK(&state.scalars == &state.numbers);
  StateDict copy = state;
  copy.scalars["param_groups.0.lr"] = 0.25;
  CHECK(copy.numbers.at("param_groups.0.lr") == 0.25);
  CHECK(state.numbers.at("param_groups.0.lr") == 0.5);
  state = std::move(copy);
  CHECK(state.scalars.at("param_groups.0.lr") == 0.25);
  optimizer.load_state_dict(state);
  CHECK(optimizer.lr() == 0.25);
  // A state of an optimizer is none of a module.
  CHECK(load_error(net, state).find("\"consecutive_skips\"") != std::string::npos);
}

TEST_CASE("a staged load is applied when it is called") {
  const LayerNet net;
  nn::StateDict dict = net.state_dict();
  dict.set("fc1.bias", tensor({0.5, 1.5}));
  const nn::StagedLoad load = net.stage(dict);
  CHECK(values(net.fc1.bias) == std::vector<double>{0, 0});
  load();
  CHECK(values(net.fc1.bias) == std::vector<double>{0.5, 1.5});
  dict.erase("fc1.bias");
  CHECK_THROWS_AS(net.check_state_dict(dict), ValueError);
  CHECK_THROWS_AS(net.stage(dict), ValueError);
}

TEST_CASE("tensors of a state are found, replaced and removed by name") {
  StateDict state;
  state.tensors["b"] = ones({1});
  state.tensors["a"] = ones({2});
  CHECK(state.names() == std::vector<std::string>{"b", "a"});
  CHECK(state.tensors.at("a").numel() == 2);
  CHECK(state.tensors.find("a")->second.numel() == 2);
  CHECK(state.tensors.find("c") == state.tensors.end());
  for (auto& [name, tensor] : state.tensors) tensor = tensor * 2;
  CHECK(values(state["b"]) == std::vector<double>{2});
  CHECK(state.tensors.count("b") == 1);
  CHECK(state.tensors.erase("b") == 1);
  CHECK(state.tensors.erase("b") == 0);
  CHECK(state.tensors.size() == 1);
  CHECK_THROWS_AS(state.tensors.at("b"), ValueError);
  CHECK_FALSE(state.tensors["c"].defined());
  CHECK_FALSE(state.contains("c"));
}

TEST_CASE("suggestions of similar names") {
  const std::vector<std::string> known{"O0", "O1", "fc1.weight", "fc2.weight", "layer_norm"};
  CHECK(did_you_mean("o1", known) == "did you mean \"O1\" or \"O0\"?");
  CHECK(did_you_mean("fc1.weigth", known) == "did you mean \"fc1.weight\" or \"fc2.weight\"?");
  CHECK(did_you_mean("layernorm", known) == "did you mean \"layer_norm\"?");
  CHECK(did_you_mean("conv2d", known).empty());
  CHECK(did_you_mean("", known).empty());
}
