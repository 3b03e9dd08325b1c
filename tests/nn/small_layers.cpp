// The small layers: their random numbers, their errors, how they are printed.
// tests/golden/layers.cpp checks their values.
#include <cmath>

#include "support.h"

using namespace mezzo;

namespace {

double mean_of(const Tensor& x) { return mean(x).item<double>(); }

}  // namespace

TEST_CASE("PReLU and RReLU") {
  CHECK(keys(nn::PReLU{.num_parameters = 3, .init = 0.5}) == "weight [3]");
  CHECK(values(nn::PReLU{}.weight()) == std::vector<double>{0.25});
  CHECK_THROWS_AS(nn::PReLU{.num_parameters = 0}, ValueError);
  manual_seed(1);
  const nn::RReLU layer{.lower = 0.2, .upper = 0.6};
  const Tensor x = full({4000}, -1, {.requires_grad = true}), y = layer(x);
  CHECK(amax(y).item<double>() <= -0.2);
  CHECK(amin(y).item<double>() >= -0.6);
  CHECK(mean_of(y) == Approx(-0.4).epsilon(0.02));
  sum(y).backward();
  CHECK(values(x.grad()) == values(neg(y)));
  CHECK(values(layer(ones({3}))) == std::vector<double>{1, 1, 1});
  CHECK_THROWS_AS((nn::RReLU{.lower = 0.5, .upper = 0.1}), ValueError);
  CHECK_THROWS_AS(layer(ones({3}, {.dtype = i64})), DtypeError);
  CHECK_THROWS_AS(nn::Softmax2d{}(ones({2, 2})), ShapeError);
}

TEST_CASE("channel dropout drops whole channels") {
  manual_seed(2);
  const nn::Dropout2d layer(0.25);
  const Tensor x = ones({50, 40, 3, 2}), y = layer(x);
  const std::vector<double> least = values(amin(y, {2, 3})), most = values(amax(y, {2, 3}));
  CHECK(least == most);
  double kept = 0;
  for (const double v : least) {
    CHECK((v == 0 || v == static_cast<double>(1.0f / 0.75f)));
    kept += v != 0 ? 1 : 0;
  }
  CHECK(kept / 2000 == Approx(0.75).epsilon(0.05));
  CHECK(values(layer(ones({6, 3, 2}))).size() == 36);  // [C,H,W]
  CHECK(nn::Dropout1d{}(ones({2, 3}, {.dtype = f16})).dtype() == f16);
  CHECK(values(nn::Dropout3d{1}(ones({2, 2, 2, 2}))) == std::vector<double>(16, 0));
  layer.eval();
  CHECK(layer(x).is_same(x));
  CHECK_THROWS_AS(layer(ones({3, 2})), ShapeError);
  CHECK_THROWS_AS(nn::Dropout1d{1.5}, ValueError);
  CHECK(error_of<ValueError>([] { nn::Dropout3d{-1}; }) ==
        "Dropout3d: p is not a probability; got -1, expected 0..1");
}

TEST_CASE("AlphaDropout keeps mean and variance of standard normal values") {
  manual_seed(3);
  const nn::AlphaDropout layer(0.3);
  const Tensor x = randn({100, 200}), y = layer(x);
  CHECK(mean_of(y) == Approx(0).margin(0.03));
  CHECK(mean_of(y * y) == Approx(1).epsilon(0.03));
  const Tensor z = nn::FeatureAlphaDropout(0.3)(randn({50, 100, 4}));
  CHECK(mean_of(z) == Approx(0).margin(0.06));
  CHECK(mean_of(z * z) == Approx(1).epsilon(0.06));
  CHECK(layer(randn({4}, {.dtype = bf16})).dtype() == bf16);
  layer.eval();
  CHECK(layer(x).is_same(x));
  CHECK_THROWS_AS(nn::AlphaDropout{2}, ValueError);
  CHECK_THROWS_AS(nn::FeatureAlphaDropout{0.5}(ones({3})), ShapeError);
}

TEST_CASE("instance norm refuses wrong channels and is printed") {
  const nn::InstanceNorm2d layer(3, {.affine = true, .track_running_stats = true});
  CHECK(keys(layer) ==
        "weight [3], bias [3], running_mean [3], running_var [3], num_batches_tracked []");
  CHECK_FALSE(layer.keeps_f32_under_amp());
  CHECK_THROWS_AS(layer(ones({2, 4, 2, 2})), ShapeError);
  CHECK_THROWS_AS(layer(ones({3, 2})), ShapeError);
  CHECK_THROWS_AS(nn::InstanceNorm1d{0}, ValueError);
  CHECK_THROWS_AS(nn::LocalResponseNorm{0}, ValueError);
}

TEST_CASE("Bilinear") {
  manual_seed(4);
  const nn::Bilinear layer(16, 5, 7);
  CHECK(keys(layer) == "weight [7,16,5], bias [7]");
  CHECK(amax(abs(layer.weight())).item<double>() <= 0.25);
  CHECK(amax(abs(layer.weight())).item<double>() > 0.24);
  CHECK(keys(nn::Bilinear(2, 3, 4, {.bias = false})) == "weight [4,2,3]");
  CHECK_THROWS_AS(nn::Bilinear(0, 3, 4), ValueError);
  CHECK_THROWS_AS(layer(ones({2, 15}), ones({2, 5})), ShapeError);
}

TEST_CASE("layers that rearrange pixels and channels, and padding") {
  CHECK(values(nn::ChannelShuffle{2}(arange(0.0, 4).view({1, 4, 1}))) ==
        std::vector<double>{0, 2, 1, 3});
  CHECK_THROWS_AS(nn::ChannelShuffle{0}, ValueError);
  CHECK_THROWS_AS(nn::ChannelShuffle{3}(ones({1, 4, 1})), ShapeError);
  CHECK_THROWS_AS(nn::PixelShuffle{0}, ValueError);
  CHECK_THROWS_AS(nn::PixelUnshuffle{2}(ones({1, 3, 3})), ShapeError);
  CHECK(str(nn::ZeroPad2d{1}) == "ZeroPad2d(1, 1, 1, 1) parameters\n");
  CHECK(values(nn::ZeroPad1d{1}(ones({1, 2}))) == std::vector<double>{0, 1, 1, 0});
  CHECK(values(nn::ConstantPad1d{{0, 1}, 3}(ones({1, 2}))) == std::vector<double>{1, 1, 3});
  CHECK(nn::CircularPad3d{1}(ones({1, 2, 2, 2})).shape() == Shape{1, 4, 4, 4});
  CHECK(nn::ZeroPad3d{-1}(ones({1, 3, 3, 3})).shape() == Shape{1, 1, 1, 1});
  CHECK(error_of<ValueError>([] { nn::ReflectionPad2d{{1, 2, 3}}; }) ==
        "ReflectionPad2d: wrong number of paddings; got 3, expected 1 or 4");
  CHECK_THROWS_AS(nn::ReflectionPad1d{3}(ones({1, 2})), ShapeError);
  CHECK_THROWS_AS(nn::Upsample{{}}(ones({1, 1, 2})), ValueError);
}

TEST_CASE("losses of three operands, and the checks of GaussianNLLLoss") {
  const nn::GaussianNLLLoss loss;
  const Tensor x = ones({2, 3});
  CHECK(loss(x, x, ones({2})).shape() == Shape{});
  CHECK(loss(x.to(f16), x.to(f16), ones({2, 1}).to(f16)).dtype() == f16);
  CHECK_THROWS_AS(loss(x, ones({3, 2}), x), ShapeError);
  CHECK_THROWS_AS(loss(x, x, ones({3})), ShapeError);
  CHECK_THROWS_AS(loss(x, x, full({2, 3}, -1)), ValueError);
  CHECK_THROWS_AS(nn::GaussianNLLLoss{.eps = 0}, ValueError);
  const nn::MultiMarginLoss weighted{.weight = ones({3})};
  CHECK(keys(weighted) == "weight [3]");
  const Tensor scores = log_softmax(zeros({4, 1, 3}), 2), labels = ones({1, 2}, {.dtype = i64});
  CHECK(
      values(nn::CTCLoss{}(scores, labels, std::vector<std::int64_t>{4},
                           std::vector<std::int64_t>{2})) ==
      values(ctc_loss(scores, labels, std::vector<std::int64_t>{4}, std::vector<std::int64_t>{2})));
}

TEST_CASE("ModuleDict names its members") {
  struct Heads : nn::Model<Heads> {
    nn::ModuleDict<nn::Linear> heads =
        add("heads", nn::ModuleDict<nn::Linear>{{{"small", nn::Linear{2, 1}}}});
    Heads() { heads.insert("large", nn::Linear{2, 5}); }
    Tensor forward(const Tensor& x, const char* head) const { return heads[head](x); }
  };
  const Heads net;
  CHECK(keys(net) ==
        "heads.small.weight [1,2], heads.small.bias [1], heads.large.weight [5,2], "
        "heads.large.bias [5]");
  CHECK(net(ones({3, 2}), "large").shape() == Shape{3, 5});
  CHECK(net.heads.size() == 2);
  CHECK(net.heads.contains("small"));
  CHECK(net.heads.begin()->first == "small");
  CHECK(error_of<ValueError>([&] { net.heads["larg"]; }) ==
        "ModuleDict: there is no member of this name; got \"larg\"; did you mean \"large\"?");
  CHECK_THROWS_AS(Heads{}.heads.insert("small", nn::Linear{1, 1}), ValueError);
  CHECK_THROWS_AS(Heads{}.heads.insert("a.b", nn::Linear{1, 1}), ValueError);
}

TEST_CASE("a tied layer shares its weight, which is saved once and stays tied after loading") {
  struct Tied : nn::Model<Tied> {
    nn::Embedding table = add("table", nn::Embedding{5, 3});
    nn::Linear head = add("head", nn::Linear::tied(table.weight(), {.bias = false}));
    Tensor forward(const Tensor& index) const { return head(table(index)); }
  };
  const Tied net, other;
  CHECK(keys(net) == "table.weight [5,3], head.weight [5,3]");
  CHECK(net.parameters().size() == 1);
  CHECK(saved_tensors(net).size() == 1);
  net(zeros({2}, {.dtype = i64})).backward(ones({2, 5}));
  CHECK(net.table.weight().grad().defined());
  nn::StateDict values_of_head;
  values_of_head.set("head.weight", full({5, 3}, 7));
  other.load_state_dict(values_of_head);
  CHECK(values(other.table.weight()) == std::vector<double>(15, 7));
  CHECK(other.head.weight().is_same(other.table.weight()));
  other.to(f16);
  CHECK(other.head.weight().dtype() == f16);
  CHECK(keys(nn::Linear::tied(net.table.weight())) == "weight [5,3], bias [5]");
  CHECK_THROWS_AS(nn::Linear::tied(ones({3})), ShapeError);
  CHECK_THROWS_AS(nn::Linear::tied(Tensor{}), ValueError);
  CHECK_THROWS_AS(nn::Linear::tied(net.table.weight() * 2), StateError);
}
