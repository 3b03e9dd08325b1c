// Activation layers and dropout.
#include "support.h"

using namespace mezzo;

TEST_CASE("activation layers call their functions") {
  const Tensor x = linspace(-4, 4, 32);
  CHECK(values(nn::Hardsigmoid{}(x)) == values(hardsigmoid(x)));
  CHECK(values(nn::Hardswish{}(x)) == values(hardswish(x)));
  CHECK(values(nn::LogSigmoid{}(x)) == values(logsigmoid(x)));
  CHECK(values(nn::Mish{}(x)) == values(mish(x)));
  CHECK(values(nn::ReLU{}(x)) == values(relu(x)));
  CHECK(values(nn::ReLU6{}(x)) == values(relu6(x)));
  CHECK(values(nn::SELU{}(x)) == values(selu(x)));
  CHECK(values(nn::Sigmoid{}(x)) == values(sigmoid(x)));
  CHECK(values(nn::SiLU{}(x)) == values(silu(x)));
  CHECK(values(nn::Softsign{}(x)) == values(softsign(x)));
  CHECK(values(nn::Tanh{}(x)) == values(mezzo::tanh(x)));
  CHECK(values(nn::Tanhshrink{}(x)) == values(tanhshrink(x)));
  CHECK(values(nn::CELU{.alpha = 2}(x)) == values(celu(x, {.alpha = 2})));
  CHECK(values(nn::ELU{.alpha = 2}(x)) == values(elu(x, {.alpha = 2})));
  CHECK(values(nn::GELU{}(x)) == values(gelu(x)));
  CHECK(values(nn::GELU{.approximate = GeluApproximation::tanh}(x)) ==
        values(gelu(x, {.approximate = GeluApproximation::tanh})));
  CHECK(values(nn::GLU{.dim = 0}(x)) == values(glu(x, {.dim = 0})));
  CHECK(values(nn::Hardshrink{.lambda = 1}(x)) == values(hardshrink(x, {.lambda = 1})));
  CHECK(values(nn::Hardtanh{.min = 0, .max = 2}(x)) == values(hardtanh(x, {.min = 0, .max = 2})));
  CHECK(values(nn::LeakyReLU{.negative_slope = 0.2}(x)) ==
        values(leaky_relu(x, {.negative_slope = 0.2})));
  CHECK(values(nn::Softplus{.beta = 2}(x)) == values(softplus(x, {.beta = 2})));
  CHECK(values(nn::Softshrink{.lambda = 1}(x)) == values(softshrink(x, {.lambda = 1})));
  const Tensor m = x.view({4, 8});
  CHECK(values(nn::Softmax{1}(m)) == values(softmax(m, 1)));
  CHECK(values(nn::LogSoftmax{0}(m)) == values(log_softmax(m, 0)));
  CHECK(values(nn::Softmin{-1}(m)) == values(softmin(m, -1)));
  CHECK(str(nn::LeakyReLU{}).find("LeakyReLU(slope 0.01)") == 0);
}

TEST_CASE("options of activations are given by name, or the first one alone") {
  const Tensor x = linspace(-4, 4, 32);
  const std::vector<double> steep = values(leaky_relu(x, {.negative_slope = 0.2}));
  const LeakyReluOptions options{.negative_slope = 0.2};
  CHECK(values(nn::LeakyReLU{.negative_slope = 0.2}(x)) == steep);
  CHECK(values(nn::LeakyReLU{0.2}(x)) == steep);
  CHECK(values(nn::LeakyReLU{options}(x)) == steep);
  CHECK(values(nn::LeakyReLU({.negative_slope = 0.2})(x)) == steep);
  CHECK(values(nn::ELU{2}(x)) == values(elu(x, {.alpha = 2})));
  CHECK(values(nn::GELU{GeluApproximation::tanh}(x)) ==
        values(gelu(x, {.approximate = GeluApproximation::tanh})));
  CHECK(values(nn::Softplus{.threshold = 1}(x)) == values(softplus(x, {.threshold = 1})));
  CHECK(nn::PReLU{3}.weight().numel() == 3);
  CHECK(nn::RReLU{.upper = 0.5}.upper == 0.5);
  // A fraction is no number of parameters.
  STATIC_REQUIRE_FALSE(
      std::is_convertible_v<double,
                            nn::NamedOptions<nn::PReLU, &nn::PReluOptions::num_parameters>>);
  struct Net : nn::Model<Net> {
    nn::ELU act = add("act", nn::ELU{.alpha = 0.5});
    Tensor forward(const Tensor& t) const { return act(t); }
  };
  const Net net;
  CHECK(values(net(x)) == values(elu(x, {.alpha = 0.5})));
  CHECK(str(net).find("act: ELU(alpha 0.5)") != std::string::npos);
  Net other;
  other.replace(other.act, nn::ELU{3});
  CHECK(values(other(x)) == values(elu(x, {.alpha = 3})));
  CHECK(other.act.alpha == 3);
}

TEST_CASE("Lambda calls its function") {
  const nn::Sequential net{nn::Linear{3, 4}, nn::Lambda{[](const Tensor& x) { return x * x; }}};
  const Tensor x = ones({2, 3});
  CHECK(net(x).shape() == Shape{2, 4});
  CHECK(min(net(x)).item<double>() >= 0);
  CHECK(str(net).find("1: Lambda()") != std::string::npos);
  CHECK(net.parameters().size() == 2);
  CHECK_THROWS_AS(nn::Lambda{std::function<Tensor(const Tensor&)>()}, ValueError);
}

TEST_CASE("Dropout is active in training mode only") {
  const nn::Dropout layer{0.25};
  const Tensor x = ones({10000}, {.requires_grad = true});
  manual_seed(4);
  const std::vector<double> y = values(layer(x));
  const auto dropped = std::count(y.begin(), y.end(), 0.0);
  CHECK(std::abs(dropped - 2500) < 220);
  CHECK(std::count(y.begin(), y.end(), static_cast<double>(1 / 0.75f)) == 10000 - dropped);
  CHECK(values(layer(x)) != y);
  manual_seed(4);
  CHECK(values(layer(x)) == y);
  layer.eval();
  CHECK(layer(x).is_same(x));
  CHECK_THROWS_AS(nn::Dropout{1.5}, ValueError);
  CHECK_THROWS_AS(nn::Dropout{-0.1}, ValueError);
}
