// Exponential moving averages of weights.
#include "support.h"

using namespace mezzo;

namespace {

struct NormNet : nn::Model<NormNet> {
  nn::Linear fc = add("fc", nn::Linear{2, 1, {.bias = false}});
  nn::BatchNorm1d norm = add("norm", nn::BatchNorm1d{1});
  Tensor forward(const Tensor& x) const { return norm(fc(x)); }
};

void set_weight(const NormNet& net, double value) { net.fc.weight().detach().fill_(value); }
double weight_of(const NormNet& net) { return values(net.fc.weight())[0]; }

}  // namespace

TEST_CASE("averages follow the weights with the given decay") {
  const NormNet net;
  set_weight(net, 1);
  nn::ExponentialMovingAverage ema(net, {.decay = 0.75});
  CHECK(ema.averages().names() ==
        std::vector<std::string>{"fc.weight", "norm.weight", "norm.bias"});
  set_weight(net, 5);
  ema.update();
  CHECK(values(ema.averages()["fc.weight"]) == std::vector<double>{2, 2});
  ema.update();
  CHECK(values(ema.averages()["fc.weight"]) == std::vector<double>{2.75, 2.75});
  CHECK(ema.num_updates() == 2);
  CHECK(weight_of(net) == 5);
}

TEST_CASE("warm-up averages the first weights evenly") {
  const NormNet net;
  set_weight(net, 0);
  nn::ExponentialMovingAverage ema(net, {.decay = 0.9, .warmup = true});
  set_weight(net, 1);
  ema.update();  // decay 1 / 10
  CHECK(values(ema.averages()["fc.weight"])[0] == Approx(0.9));
  ema.update();  // decay 2 / 11
  CHECK(values(ema.averages()["fc.weight"])[0] == Approx(0.9 + 0.1 * 9 / 11));
}

TEST_CASE("swapping restores the weights bitwise, also at the end of a scope") {
  const NormNet net;
  set_weight(net, 0.1);
  nn::ExponentialMovingAverage ema(net, {.decay = 0.5});
  const std::vector<double> first = values(net.fc.weight());
  set_weight(net, 0.7);
  const std::vector<double> own = values(net.fc.weight());
  ema.swap();
  CHECK(values(net.fc.weight()) == first);
  CHECK(net.fc.weight().requires_grad());
  CHECK_THROWS_AS(ema.update(), StateError);
  CHECK_THROWS_AS(ema.state_dict(), StateError);
  CHECK_THROWS_AS(static_cast<void>(ema.averaged()), StateError);
  ema.swap();
  CHECK(values(net.fc.weight()) == own);
  {
    const auto averaged = ema.averaged();
    CHECK(values(net.fc.weight()) == first);
  }
  CHECK(values(net.fc.weight()) == own);
}

TEST_CASE("buffers are averaged on demand") {
  const NormNet net;
  nn::ExponentialMovingAverage ema(net, {.decay = 0.5, .use_buffers = true});
  CHECK(ema.averages().names() == std::vector<std::string>{"fc.weight", "norm.weight", "norm.bias",
                                                           "norm.running_mean",
                                                           "norm.running_var"});
  net.buffer("norm.running_mean").fill_(4);
  ema.update();
  CHECK(values(ema.averages()["norm.running_mean"]) == std::vector<double>{2});
}

TEST_CASE("averages of 16-bit models are f32, and those of a session's models follow the masters") {
  manual_seed(1);
  const NormNet low;
  low.to(f16);
  nn::ExponentialMovingAverage ema(low, {.decay = 0.999});
  CHECK(ema.averages()["fc.weight"].dtype() == f32);
  const std::vector<double> own = values(low.fc.weight());
  set_weight(low, 1);
  ema.update();  // a change too small for f16
  CHECK(values(ema.averages()["fc.weight"])[0] ==
        Approx(own[0] + 0.001 * (1 - own[0])).epsilon(1e-6));
  ema.swap();
  CHECK(low.fc.weight().dtype() == f16);
  ema.swap();
  CHECK(weight_of(low) == 1);

  const NormNet net;
  optim::SGD optimizer(net.parameters(), {.lr = 1e-5});
  auto session = amp::initialize(net, optimizer, {.opt_level = "O2", .verbosity = 0});
  nn::ExponentialMovingAverage of_masters(net, {.decay = 0.0});
  const Tensor x = randn({8, 2});
  amp::scale_loss(sum(net(x) * randn({8, 1})), optimizer,
                  [](const Tensor& scaled) { scaled.backward(); });
  optimizer.step();
  of_masters.update();
  const std::vector<Tensor> masters = amp::master_params(optimizer);
  CHECK(masters[0].dtype() == f32);
  CHECK(values(of_masters.averages()["fc.weight"]) == values(masters[0]));
  const std::vector<double> before = values(masters[0]);
  {
    const auto averaged = of_masters.averaged();
    CHECK(values(net.fc.weight()) == values(of_masters.averages()["fc.weight"].to(f16)));
  }
  CHECK(values(amp::master_params(optimizer)[0]) == before);
}

TEST_CASE("averages are saved and loaded, or refused as a whole") {
  const NormNet net, other;
  set_weight(net, 1);
  nn::ExponentialMovingAverage ema(net, {.decay = 0.5}), second(other, {.decay = 0.5});
  set_weight(net, 2);
  ema.update();
  const nn::StateDict saved = ema.state_dict();
  CHECK(saved.names() == std::vector<std::string>{"average.fc.weight", "average.norm.weight",
                                                  "average.norm.bias", "num_updates"});
  second.load_state_dict(saved);
  CHECK(second.num_updates() == 1);
  CHECK(values(second.averages()["fc.weight"]) == std::vector<double>{1.5, 1.5});
  other.load_state_dict(ema.averages(), {.strict = false});
  CHECK(weight_of(other) == 1.5);
  nn::StateDict wrong = saved;
  wrong.erase("num_updates");
  wrong.set("average.fc.weight", ones({3}));
  wrong.set("extra", ones({1}));
  CHECK(error_of<ValueError>([&] { second.load_state_dict(wrong); }) ==
        "ExponentialMovingAverage: the saved averages do not fit the model; got missing "
        "\"num_updates\"; of "
        "wrong shape or kind \"average.fc.weight\"; unexpected \"extra\"");
  CHECK(second.num_updates() == 1);
  CHECK_THROWS_AS((nn::ExponentialMovingAverage(net, {.decay = 1.5})), ValueError);
}

TEST_CASE("averages detect a changed model") {
  nn::Sequential net{nn::Linear{2, 2}, nn::Identity{}};
  nn::ExponentialMovingAverage ema(net);
  net.push_back(nn::Linear{2, 2});
  CHECK_THROWS_AS(ema.update(), ValueError);
}
