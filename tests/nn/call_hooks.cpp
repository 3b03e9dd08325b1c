// Hooks on the calls of modules.
#include <functional>

#include "support.h"

using namespace mezzo;

namespace {

using Tensors = std::vector<Tensor>;

/** Two inputs in containers, two results in a struct. */
struct Both {
  Tensor sum;
  std::vector<Tensor> parts;
};
auto fields(Both& b) { return std::tie(b.sum, b.parts); }

struct Pair : nn::Model<Pair> {
  Both forward(const std::vector<Tensor>& xs, const Tensor& y, int times) const {
    return {(xs[0] + y) * times, xs};
  }
};

struct Silent : nn::Model<Silent> {
  void forward(Tensor& out, const Tensor& x) const { out = x * 2; }
};

}  // namespace

TEST_CASE("forward hooks see and replace what goes in and comes out", "[hooks]") {
  const nn::Linear layer{2, 2};
  const Tensor x = ones({1, 2});
  const Tensor plain = layer(x), doubled = layer(x * 2);
  std::vector<std::string> order;
  HookHandle first =
      layer.register_forward_pre_hook([&](const nn::Module& module, Tensors& inputs) {
        order.push_back("pre " + std::string(module.kind()));
        CHECK(inputs.size() == 1);
        CHECK(inputs[0].is_same(x));
        inputs[0] = inputs[0] * 2;
      });
  HookHandle second =
      layer.register_forward_hook([&](const nn::Module&, const Tensors& inputs, Tensors& outputs) {
        order.push_back("post");
        CHECK(values(inputs[0]) == values(x * 2));
        CHECK(values(outputs[0]) == values(doubled));
        outputs[0] = -outputs[0];
      });
  CHECK(values(layer(x)) == values(-doubled));
  CHECK(order == std::vector<std::string>{"pre Linear", "post"});
  const nn::Linear other_handle = layer;
  CHECK(values(other_handle(x)) == values(-doubled));
  first.remove();
  second.remove();
  second.remove();
  CHECK(values(layer(x)) == values(plain));
  CHECK(order.size() == 4);
}

TEST_CASE("forward hooks run in order of registration, and one may remove itself", "[hooks]") {
  const nn::ReLU layer;
  std::string order;
  HookHandle once;
  once = layer.register_forward_hook([&](const nn::Module&, const Tensors&, Tensors&) {
    order += 'a';
    once.remove();
  });
  layer.register_forward_hook([&](const auto&, const auto&, auto&) { order += 'b'; });
  layer(ones({1}));
  layer(ones({1}));
  CHECK(order == "abb");
  HookHandle left;
  {
    const nn::ReLU gone;
    left = gone.register_forward_hook([](const auto&, const auto&, auto&) {});
  }
  left.remove();
}

TEST_CASE("forward hooks reach tensors inside containers and structs", "[hooks]") {
  const Pair pair;
  const Tensor a = ones({2}), b = full({2}, 3);
  pair.register_forward_pre_hook([&](const nn::Module&, Tensors& inputs) {
    REQUIRE(inputs.size() == 3);
    CHECK(inputs[1].is_same(b));
    std::swap(inputs[0], inputs[1]);
  });
  pair.register_forward_hook([&](const nn::Module&, const Tensors& inputs, Tensors& outputs) {
    CHECK(inputs[0].is_same(b));
    REQUIRE(outputs.size() == 3);
    outputs[2] = outputs[2] * 10;
  });
  const Both both = pair(std::vector{a, b}, a, 2);
  CHECK(values(both.sum) == std::vector<double>{8, 8});
  CHECK(values(both.parts[0]) == std::vector<double>{3, 3});
  CHECK(values(both.parts[1]) == std::vector<double>{10, 10});
  const Silent silent;
  int calls = 0;
  silent.register_forward_hook([&](const nn::Module&, const Tensors& inputs, Tensors& outputs) {
    ++calls;
    CHECK(inputs.size() == 1);
    CHECK(outputs.empty());
  });
  Tensor out;
  silent(out, a);
  CHECK(calls == 1);
  CHECK(values(out) == std::vector<double>{2, 2});
  CHECK_THROWS_AS(
      [&] {
        const nn::ReLU layer;
        layer.register_forward_pre_hook([](const auto&, auto& inputs) { inputs.clear(); });
        layer(a);
      }(),
      ValueError);
}

TEST_CASE("layers with forward hooks are not left out by fusion", "[hooks]") {
  const auto count_calls = [](const nn::Module& module, int& calls) {
    module.register_forward_hook([&calls](const auto&, const auto&, auto&) { ++calls; });
  };
  const nn::Sequential mlp{nn::Linear{3, 4}, nn::ReLU{}, nn::Linear{4, 2}};
  const nn::Sequential norm{nn::BatchNorm1d{3}, nn::ReLU{}};
  const Tensor x = randn({5, 3});
  for (const nn::Sequential& net : {mlp, norm}) {
    const std::vector<double> fused = values(net(x));
    for (std::size_t i = 0; i < net.size(); ++i) {
      int calls = 0;
      HookHandle handle = net[static_cast<std::int64_t>(i)].register_forward_hook(
          [&](const auto&, const auto&, auto&) { ++calls; });
      CHECK(values(net(x)) == fused);
      CHECK(calls == 1);
      handle.remove();
    }
  }
  const nn::LayerNorm layer{3};
  int calls = 0;
  count_calls(layer, calls);
  nn::add_layer_norm(layer, x, x);
  CHECK(calls == 1);
}

TEST_CASE("forward hooks see tensors before mixed precision casts them", "[hooks]") {
  const nn::Linear layer{2, 2};
  const auto session = amp::initialize(layer, {.opt_level = "O3", .verbosity = 0});
  DType in{}, out{};
  layer.register_forward_pre_hook(
      [&](const nn::Module&, Tensors& inputs) { in = inputs[0].dtype(); });
  layer.register_forward_hook([&](const nn::Module&, const Tensors&, Tensors& outputs) {
    out = outputs[0].dtype();
    outputs[0] = outputs[0] * 2;
  });
  const Tensor y = layer(ones({1, 2}));
  CHECK(in == f32);
  CHECK(out == y.dtype());
  sum(y).backward();
  CHECK(layer.weight().grad().dtype() == f16);
  CHECK(values(layer.bias().grad()) == std::vector<double>{2, 2});
}
