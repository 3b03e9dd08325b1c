// mlp against separate ops: the same bits forward and backward on any device; how Sequential uses
// it.
#include <mezzo.h>

#include <cmath>
#include <functional>
#include <memory>

#include "../support/catch.h"
#include "joined.h"

using namespace mezzo;
using namespace cases::joined;

namespace {

struct Layers {
  Tensor x;
  std::vector<Tensor> weights, biases;

  Layers(DType dtype, const std::vector<std::int64_t>& sizes, std::int64_t rows)
      : x(leaf({rows, sizes[0]}, dtype, 1)) {
    for (std::size_t i = 1; i < sizes.size(); ++i) {
      weights.push_back(leaf({sizes[i], sizes[i - 1]}, dtype, 0.5));
      biases.push_back(leaf({sizes[i]}, dtype, 0.5));
    }
  }
  Tensor by_parts(const std::function<Tensor(const Tensor&)>& between = [](const Tensor& h) {
    return relu(h);
  }) const {
    Tensor h = x;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      h = linear(h, weights[i], biases[i]);
      if (i + 1 < weights.size()) h = between(h);
    }
    return h;
  }
  std::vector<Tensor> leaves() const {
    std::vector<Tensor> out{x};
    out.insert(out.end(), weights.begin(), weights.end());
    out.insert(out.end(), biases.begin(), biases.end());
    return out;
  }
  /** Returns the value and the gradients of all leaves. */
  std::vector<Tensor> results(const Tensor& y) const {
    for (const Tensor& leaf : leaves()) leaf.set_grad({});
    sum(y).backward();
    std::vector<Tensor> out{y.detach()};
    for (const Tensor& leaf : leaves()) out.push_back(leaf.grad());
    return out;
  }
};

/** Returns the largest difference relative to max(1, |element|). */
double relative_difference(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().to(cpu).to(f64), y = b.detach().to(cpu).to(f64);
  return amax(abs(x - y) / maximum(abs(y), ones_like(y))).item<double>();
}

}  // namespace

TEST_CASE("an mlp has the bits of the separate ops", "[ops]") {
  manual_seed(5);
  for (const DType dtype : {f64, f32, f16, bf16})
    for (const std::int64_t rows : {1, 7, 33}) {
      INFO(name(dtype) << ", " << rows << " rows");
      const Layers layers(dtype, {9, 20, 131, 5}, rows);
      CHECK(same_bits(layers.results(layers.by_parts()),
                      layers.results(mlp(layers.x, layers.weights, layers.biases))));
    }
}

TEST_CASE("an mlp with gelu has the bits of the separate ops where gelu is not fused into a GEMM",
          "[ops]") {
  manual_seed(5);
  struct Form {
    MlpActivation activation;
    GeluApproximation approximate;
  };
  for (const DType dtype : {f64, f32, f16, bf16})
    for (const Form& form : {Form{MlpActivation::gelu, GeluApproximation::none},
                             Form{MlpActivation::gelu_tanh, GeluApproximation::tanh}}) {
      INFO(name(dtype) << ", gelu form " << static_cast<int>(form.approximate));
      const Layers layers(dtype, {9, 24, 136, 5}, 7);
      const bool fuses = !(layers.x.device() == cpu) && (dtype == f16 || dtype == bf16) &&
                         form.approximate == GeluApproximation::tanh;
      const auto parts = layers.results(layers.by_parts(
          [&](const Tensor& h) { return gelu(h, {.approximate = form.approximate}); }));
      const auto whole = layers.results(
          mlp(layers.x, layers.weights, layers.biases, {.activation = form.activation}));
      if (!fuses) CHECK(same_bits(parts, whole));
      for (std::size_t i = 0; fuses && i < parts.size(); ++i)
        CHECK(relative_difference(whole[i], parts[i]) < (dtype == f16 ? 0.02 : 0.1));
    }
}

TEST_CASE("an mlp with gelu computes only the requested gradients, any number of times", "[ops]") {
  manual_seed(7);
  const Layers layers(f32, {5, 8, 4}, 6);
  const auto gradients = [&](const std::vector<Tensor>& inputs, bool whole) {
    const Tensor y =
        whole ? mlp(layers.x, layers.weights, layers.biases, {.activation = MlpActivation::gelu})
              : layers.by_parts([](const Tensor& h) { return gelu(h); });
    return grad({sum(y)}, inputs);
  };
  for (const std::vector<Tensor>& inputs : {std::vector<Tensor>{layers.x},
                                            {layers.weights[0]},
                                            {layers.biases[0]},
                                            {layers.biases[1], layers.x}})
    CHECK(same_bits(gradients(inputs, true), gradients(inputs, false)));
  const Tensor y =
      mlp(layers.x, layers.weights, layers.biases, {.activation = MlpActivation::gelu});
  const Tensor recorded = grad({sum(y)}, {layers.x}, {.create_graph = true})[0];
  CHECK(relative_difference(recorded, grad({sum(y)}, {layers.x}, {.retain_graph = true})[0]) <
        1e-5);
  {
    const NoGrad no_grad;
    CHECK(same_bits(
        {mlp(layers.x, layers.weights, layers.biases, {.activation = MlpActivation::gelu})},
        {y.detach()}));
  }
}

TEST_CASE("the relu of an mlp propagates nan and infinity", "[ops]") {
  manual_seed(6);
  for (const DType dtype : {f32, f16}) {
    const Layers layers(dtype, {4, 6, 3}, 3);
    {
      const NoGrad no_grad;
      layers.biases[0].select(0, 2).fill_(std::nan(""));
      layers.weights[0].select(0, 4).select(0, 1).fill_(INFINITY);
    }
    const std::vector<Tensor> parts = layers.results(layers.by_parts()),
                              whole = layers.results(mlp(layers.x, layers.weights, layers.biases));
    CHECK(std::isnan(whole[0].to(cpu).to(f32).to_vector<float>()[0]));
    CHECK(same_bits(parts, whole));
  }
}

TEST_CASE("an mlp computes only the requested gradients", "[ops]") {
  manual_seed(7);
  const Layers layers(f32, {5, 8, 4}, 6);
  const auto gradients = [&](const std::vector<Tensor>& inputs, bool whole) {
    return grad({sum(whole ? mlp(layers.x, layers.weights, layers.biases) : layers.by_parts())},
                inputs);
  };
  for (const std::vector<Tensor>& inputs : {std::vector<Tensor>{layers.x},
                                            {layers.weights[0]},
                                            {layers.biases[0]},
                                            {layers.biases[1], layers.x}})
    CHECK(same_bits(gradients(inputs, true), gradients(inputs, false)));
  layers.weights[0].requires_grad_(false);
  layers.biases[1].requires_grad_(false);
  for (const std::vector<Tensor>& inputs :
       {std::vector<Tensor>{layers.x, layers.biases[0]}, {layers.weights[1]}})
    CHECK(same_bits(gradients(inputs, true), gradients(inputs, false)));
}

TEST_CASE("Sequential fuses linear layers with relu between them where fusing is unobservable",
          "[ops]") {
  manual_seed(8);
  const nn::Sequential net{nn::Linear{5, 9}, nn::ReLU{}, nn::Linear{9, 7}, nn::ReLU{},
                           nn::Linear{7, 4}, nn::Tanh{}, nn::Linear{4, 3}, nn::ReLU{}};
  const Tensor x = randn({6, 5});
  const auto layer = [&](std::int64_t i) {
    return std::vector<Tensor>{net[i].parameters()[0], net[i].parameters()[1]};
  };
  const auto apart = [&](std::int64_t i, const Tensor& h) {
    return linear(h, layer(i)[0], layer(i)[1]);
  };
  const Tensor joined = net(x);
  const Tensor by_hand = relu(apart(6, mezzo::tanh(apart(4, relu(apart(2, relu(apart(0, x))))))));
  CHECK(same_bits(grad({sum(joined)}, net.parameters()), grad({sum(by_hand)}, net.parameters())));
  CHECK(same_bits({joined}, {by_hand}));
  CHECK(origin(nn::Sequential{nn::Linear{5, 3}, nn::ReLU{}, nn::Linear{3, 2}}(x)) == "linear_link");
  CHECK(origin(nn::Sequential{nn::Linear{5, 3}, nn::Linear{3, 2}}(x)) == "linear");
  const nn::Sequential watched{nn::Linear{5, 3}, nn::ReLU{}, nn::Linear{3, 2}};
  watched[1].set_call_wrapper(std::make_shared<nn::CallWrapper>());
  CHECK(origin(watched(x)) == "linear");

  Names seen;
  (void)net(x);
  CHECK(count(seen.names, "linear") == 4);
  CHECK(count(seen.names, "relu") == 3);
  CHECK(count(seen.names, "mlp") == 0);
}

TEST_CASE("Sequential under autocast equals its layers, also with user-defined tags", "[ops]") {
  manual_seed(9);
  const nn::Sequential net{nn::Linear{5, 9}, nn::ReLU{}, nn::Linear{9, 7}};
  const Tensor x = randn({6, 5});
  const auto p = net.parameters();
  const auto by_hand = [&] { return linear(relu(linear(x, p[0], p[1])), p[2], p[3]); };
  const amp::autocast casts;
  CHECK(net(x).dtype() == f16);
  CHECK(same_bits({net(x)}, {by_hand()}));
  CHECK(origin(net(x)) == "linear_link");
  const amp::policy_override wide{{"linear", Precision::f32}};
  CHECK(net(x).dtype() == f32);
  CHECK(same_bits({net(x)}, {by_hand()}));
}

TEST_CASE("Sequential reports errors as its layers do", "[ops]") {
  const nn::Sequential net{nn::Linear{5, 9}, nn::ReLU{}, nn::Linear{8, 7}};
  try {
    (void)net(randn({6, 5}));
    FAIL("a layer that does not fit");
  } catch (const ShapeError& e) {
    CHECK(std::string(e.what()).find("linear") != std::string::npos);
  }
}

TEST_CASE("a gradient that is only converted is rounded once; hooks and traces get it in full",
          "[ops]") {
  manual_seed(10);
  const Tensor h = leaf({4, 10}, f16, 3);
  const std::vector<double> labels{1, 5, 9, 0};
  const Tensor classes = tensor(labels, {4}, {.dtype = i64}).to(h.device());
  const auto gradient = [&](bool watched, DType& seen) {
    h.set_grad({});
    const Tensor wide = (h * 2).to(f32);
    if (watched)
      register_hook(wide, [&](const Tensor& g) {
        seen = g.dtype();
        return Tensor{};
      });
    (cross_entropy(wide, classes) * 1024).backward();
    return h.grad();
  };
  DType seen = f64;
  const Tensor plain = gradient(false, seen);
  CHECK(cases::same_bits(plain.to(cpu), gradient(true, seen).to(cpu)));
  CHECK(seen == f32);
  // Twice through one graph, with a second consumer of the converted tensor.
  h.set_grad({});
  const Tensor wide = (h * 2).to(f32), loss = cross_entropy(wide, classes) + mean(mezzo::exp(wide));
  loss.backward({}, true);
  const Tensor once = h.grad().clone();
  h.set_grad({});
  loss.backward();
  CHECK(cases::same_bits(once.to(cpu), h.grad().to(cpu)));
}
