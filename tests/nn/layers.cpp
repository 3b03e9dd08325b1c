// The layers: keys, shapes, results against the functions they call, gradient flow.
#include "support.h"

using namespace mezzo;

TEST_CASE("Linear") {
  const nn::Linear layer(3, 4), plain(3, 4, {.bias = false});
  CHECK(keys(layer) == "weight [4,3], bias [4]");
  CHECK(keys(plain) == "weight [4,3]");
  CHECK_FALSE(plain.bias().defined());
  const Tensor x = randn({5, 2, 3});
  CHECK(values(layer(x)) == values(linear(x, layer.weight(), layer.bias())));
  CHECK(values(plain(x)) == values(linear(x, plain.weight())));
  CHECK(layer(x).shape() == Shape{5, 2, 4});
  sum(layer(x)).backward();
  CHECK(values(layer.bias().grad()) == std::vector<double>{10, 10, 10, 10});
  CHECK(layer.weight().grad().shape() == Shape{4, 3});
  CHECK_THROWS_AS(nn::Linear(0, 4), ValueError);
  CHECK(error_of<ValueError>([] { nn::Linear(3, -1); }) ==
        "Linear: out_features is out of range; got -1, expected at least 1");
}

TEST_CASE("Embedding") {
  manual_seed(1);
  const nn::Embedding layer(50, 40), padded(5, 2, {.padding_idx = -2});
  CHECK(keys(layer) == "weight [50,40]");
  const std::vector<double> w = values(layer.weight());
  double sum_of_squares = 0;
  for (double v : w) sum_of_squares += v * v;
  CHECK(sum_of_squares / 2000 == Approx(1).epsilon(0.1));
  CHECK(values(padded.weight()[3]) == std::vector<double>{0, 0});
  const Tensor index = tensor({3, 0, 3, 1}, {.dtype = i64});
  CHECK(padded(index).shape() == Shape{4, 2});
  sum(padded(index)).backward();
  CHECK(values(padded.weight().grad()) == std::vector<double>{1, 1, 1, 1, 0, 0, 0, 0, 0, 0});
  CHECK_THROWS_AS(nn::Embedding(5, 2, {.padding_idx = 5}), ValueError);
  CHECK_THROWS_AS(nn::Embedding(0, 2), ValueError);
  CHECK_THROWS_AS(layer(full({1}, 50, {.dtype = i64})), IndexError);
}

TEST_CASE("Sequential calls its members in order and names them by number") {
  const nn::Sequential net{nn::Flatten{}, nn::Linear{6, 5}, nn::Identity{},
                           nn::Linear{5, 2, {.bias = false}}};
  CHECK(keys(net) == "1.weight [5,6], 1.bias [5], 3.weight [2,5]");
  CHECK(net.size() == 4);
  CHECK(net[1].is<nn::Linear>());
  CHECK(net[0].kind() == "Flatten");
  CHECK_THROWS_AS(net[4], IndexError);
  CHECK_THROWS_AS(net[-1], IndexError);
  const Tensor x = randn({4, 2, 3});
  const Tensor hidden = linear(x.flatten(1), net.parameter("1.weight"), net.parameter("1.bias"));
  CHECK(values(net(x)) == values(linear(hidden, net.parameter("3.weight"))));
  CHECK(error_of<ShapeError>([&] { net(randn({4, 7})); }).find("linear(1)") == 0);
}

TEST_CASE("copies of a Sequential share the appended members") {
  nn::Sequential net;
  const nn::Sequential same = net;
  CHECK(values(net(ones({2}))) == std::vector<double>{1, 1});
  net.push_back(nn::Linear{2, 3});
  net.push_back(nn::Sequential{nn::Linear{3, 3}, nn::Identity{}});
  CHECK(same.size() == 2);
  CHECK(same(ones({2})).shape() == Shape{3});
  CHECK(keys(same) == "0.weight [3,2], 0.bias [3], 1.0.weight [3,3], 1.0.bias [3]");
  CHECK(error_of<ShapeError>([&] {
          same[0].child("").parameter("weight"), net(ones({4}));
        }).find("linear(0)") == 0);
}

TEST_CASE("members of a Sequential may be modules of the user's own") {
  struct Doubled : nn::Model<Doubled> {
    nn::Sequential inner = add("inner", nn::Sequential{nn::Linear{2, 2}, nn::Identity{}});
    Tensor forward(const Tensor& x) const { return inner(x) * 2; }
  };
  const nn::Sequential net{Doubled{}, Doubled{}};
  CHECK(net(ones({3, 2})).shape() == Shape{3, 2});
  CHECK(net.parameters().size() == 4);
  CHECK(net.parameter("1.inner.0.bias").defined());
}

TEST_CASE("ModuleList names its members, and its owner calls them") {
  struct Stack : nn::Model<Stack> {
    nn::ModuleList<nn::Linear> layers = add("layers", nn::ModuleList<nn::Linear>{});
    Stack() {
      for (int i = 0; i < 3; ++i) layers.push_back(nn::Linear{2, 2});
    }
    Tensor forward(Tensor x) const {
      for (const nn::Linear& layer : layers) x = layer(x);
      return x;
    }
  };
  const Stack net;
  CHECK(net.parameters().size() == 6);
  CHECK(net.parameter("layers.2.bias").is_same(net.layers[2].bias()));
  CHECK(net(ones({1, 2})).shape() == Shape{1, 2});
  CHECK(net.layers.kind() == "ModuleList");
  CHECK(error_of<IndexError>([&] { (void)net.layers[3]; }) ==
        "ModuleList: the index is out of range; got 3, expected 0..2");
  CHECK(error_of<IndexError>([&] { (void)nn::ModuleList<nn::Linear>()[0]; }) ==
        "ModuleList: the index is out of range; got 0, expected a list with members");
  CHECK(error_of<ShapeError>([&] { net(ones({3})); }).find("linear(0)") == 0);
}

TEST_CASE("layers that change the shape") {
  const Tensor x = randn({2, 3, 4});
  CHECK(nn::Identity{}(x).is_same(x));
  CHECK(nn::Flatten{}(x).shape() == Shape{2, 12});
  CHECK(nn::Flatten{0, 1}(x).shape() == Shape{6, 4});
  CHECK(nn::Unflatten(2, {2, -1})(x).shape() == Shape{2, 3, 2, 2});
}

TEST_CASE("a net like the README's is printed, and gradients reach every weight") {
  struct Mlp : nn::Model<Mlp> {
    nn::Linear fc1 = add("fc1", nn::Linear{784, 256});
    nn::Linear fc2 = add("fc2", nn::Linear{256, 10, {.bias = false}});
    Tensor forward(const Tensor& x) const { return fc2(relu(fc1(x))); }
  };
  manual_seed(1);
  const Mlp model;
  CHECK(str(model) ==
        "Mlp                                                    203,520 parameters\n"
        "  fc1: Linear(784, 256)  weight [256,784], bias [256]  200,960\n"
        "  fc2: Linear(256, 10)  weight [10,256]                  2,560\n");
  sum(model(randn({8, 784}))).backward();
  for (const nn::NamedTensor& p : model.named_parameters()) {
    CHECK(p.tensor.grad().shape() == p.tensor.shape());
    double most = 0;
    for (double g : values(p.tensor.grad())) most = std::max(most, std::abs(g));
    CHECK(most > 0);
  }
}
