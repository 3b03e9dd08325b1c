// batch_norm_relu: the fused call gives what batch norm, add and relu give one by one, and runs the
// separate ops where fusing would be observable.
#include <cmath>
#include <memory>

#include "../support/levels.h"
#include "support.h"

using namespace mezzo;

namespace {

std::string origin(const Tensor& x) { return find_grad_state(x)->grad_fn->name(); }

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && values(a) == values(b);
}

template <class Layer>
Tensor by_parts(const Layer& layer, const Tensor& x, const Tensor& residual) {
  const Tensor y = layer(x);
  return relu(residual.defined() ? y + residual : y);
}

/** Returns a layer with its own weights and statistics, the same numbers at every call. */
template <class Layer> Layer layer_of(const nn::BatchNormLayerOptions& options) {
  manual_seed(3);
  Layer layer(3, options);
  const NoGrad no_grad;
  for (const nn::NamedTensor& p : layer.named_parameters()) p.tensor.copy_(randn(p.tensor.shape()));
  return layer;
}

/** Calls one layer fused and another one in separate ops, three times each, and compares results,
 *  gradients and buffers. */
template <class Layer>
void check_like_parts(const nn::BatchNormLayerOptions& options, const Shape& shape, bool residual,
                      bool training) {
  const Layer whole = layer_of<Layer>(options), parts = layer_of<Layer>(options);
  whole.train(training);
  parts.train(training);
  for (int step = 0; step < 3; ++step) {
    const Tensor x = randn(shape, {.requires_grad = true}),
                 carried = residual ? randn(shape, {.requires_grad = true}) : Tensor{};
    const Tensor y = nn::batch_norm_relu(whole, x, carried), z = by_parts(parts, x, carried);
    CHECK(origin(y) == "batch_norm_relu");
    CHECK(same(y, z));
    std::vector<Tensor> inputs{x};
    if (residual) inputs.push_back(carried);
    const std::vector<Tensor> a = grad({sum(y * y)}, inputs), b = grad({sum(z * z)}, inputs);
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(same(a[i], b[i]));
  }
  const auto left = whole.named_buffers(), right = parts.named_buffers();
  REQUIRE(left.size() == right.size());
  for (std::size_t i = 0; i < left.size(); ++i) CHECK(same(left[i].tensor, right[i].tensor));
}

}  // namespace

TEST_CASE("batch norm and relu give the same results fused as in separate calls") {
  for (const bool residual : {false, true})
    for (const bool training : {false, true}) {
      INFO((residual ? "residual, " : "") << (training ? "training" : "evaluation"));
      check_like_parts<nn::BatchNorm1d>({}, {5, 3}, residual, training);
      check_like_parts<nn::BatchNorm1d>({.momentum = {}}, {5, 3, 2}, residual, training);
      check_like_parts<nn::BatchNorm2d>({.affine = false}, {2, 3, 4, 2}, residual, training);
      check_like_parts<nn::BatchNorm2d>({.track_running_stats = false}, {2, 3, 4, 2}, residual,
                                        training);
      check_like_parts<nn::BatchNorm3d>({.eps = 1e-2, .momentum = 0.5}, {2, 3, 2, 1, 2}, residual,
                                        training);
    }
}

TEST_CASE("batch_norm_relu counts batches as the layer does") {
  const nn::BatchNorm2d layer(3), untracked(3, {.track_running_stats = false});
  const auto counted = [&] { return layer.num_batches_tracked().item<int>(); };
  const Tensor x = randn({2, 3, 4, 4});
  nn::batch_norm_relu(layer, x);
  nn::batch_norm_relu(layer, x, x);
  layer(x);
  CHECK(counted() == 3);
  CHECK_THROWS_AS(nn::batch_norm_relu(layer, randn({2, 4, 4, 4})), ShapeError);
  layer.eval();
  nn::batch_norm_relu(layer, x);
  CHECK(counted() == 3);
  nn::batch_norm_relu(untracked, x);
  CHECK_FALSE(untracked.num_batches_tracked().defined());
}

TEST_CASE("batch_norm_relu updates the layer's statistics if a user's tag casts one of its ops") {
  const Tensor x = randn({6, 3}), residual = randn({6, 3});
  for (const char* op : {"batch_norm", "relu", "add", "batch_norm_relu"})
    for (const Precision tag : {Precision::low, Precision::f32}) {
      INFO(op << " " << name(tag));
      const nn::BatchNorm1d plain{3}, whole{3}, parts{3};
      plain(x);
      const amp::autocast casts;
      const amp::policy_override own{{op, tag}};
      const Tensor y = nn::batch_norm_relu(whole, x, residual), z = by_parts(parts, x, residual);
      CHECK(origin(y) == "relu");
      CHECK(same(y, z));
      CHECK(same(whole.running_mean(), parts.running_mean()));
      CHECK(same(whole.running_var(), parts.running_var()));
      CHECK(whole.num_batches_tracked().item<int>() == 1);
      const std::vector<double> expected = values(plain.running_mean()),
                                got = values(whole.running_mean());
      for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(std::abs(got[i] - expected[i]) < 1e-3);
    }
  const amp::autocast casts;
  CHECK(origin(nn::batch_norm_relu(nn::BatchNorm1d{3}, x, residual)) == "batch_norm_relu");
}

TEST_CASE("the function updates statistics and count if a user's tag casts its operands") {
  const Tensor x = randn({6, 3}), mean = zeros({3}), var = ones({3}), n = zeros({}, {.dtype = i64});
  const amp::autocast casts;
  const amp::policy_override low{{"batch_norm_relu", Precision::low}};
  const Tensor y = batch_norm_relu(
      x, {.running_mean = mean, .running_var = var, .training = true, .num_batches_tracked = n});
  CHECK(y.dtype() == f16);
  CHECK(n.item<int>() == 1);
  CHECK(values(mean) != std::vector<double>{0, 0, 0});
  CHECK(values(var) != std::vector<double>{1, 1, 1});
}

TEST_CASE("batch_norm_relu runs separate ops for a residual of another dtype or shape") {
  const nn::BatchNorm1d whole{3}, parts{3};
  const Tensor x = randn({6, 3}).to(f16);
  for (const Tensor& residual : {randn({6, 3}), randn({3}).to(f16), randn({2, 6, 3}).to(f16)}) {
    const Tensor y = nn::batch_norm_relu(whole, x, residual), z = by_parts(parts, x, residual);
    CHECK(same(y, z));
    CHECK(y.shape() == z.shape());
  }
}

TEST_CASE("batch_norm_relu reports errors as the layer does") {
  const nn::Sequential net{nn::BatchNorm2d{3}, nn::ReLU{}};
  const nn::BatchNorm2d layer{3};
  const auto text = [](const auto& call) { return error_of<ShapeError>(call); };
  for (const Shape& shape : {Shape{4, 3}, Shape{4, 2, 2, 2}, Shape{1, 3, 1, 1}}) {
    const Tensor x = randn(shape);
    CHECK(text([&] { nn::batch_norm_relu(layer, x); }) == text([&] { layer(x); }));
    CHECK(text([&] { net(x); }) ==
          text([&] { nn::Sequential{nn::BatchNorm2d{3}, nn::Tanh{}}(x); }));
  }
  CHECK(values(layer.running_mean()) == std::vector<double>{0, 0, 0});
  CHECK(layer.num_batches_tracked().item<int>() == 0);
}

TEST_CASE("a call wrapper on a batch norm layer applies within batch_norm_relu") {
  struct Counter final : nn::CallWrapper {
    int begun = 0;
    void begin() override { ++begun; }
    Tensor cast_out(const Tensor& y) const override { return -y; }
  };
  const nn::BatchNorm1d layer{3};
  const auto wrapper = std::make_shared<Counter>();
  layer.set_call_wrapper(wrapper);
  const Tensor x = randn({6, 3}), y = nn::batch_norm_relu(layer, x);
  CHECK(wrapper->begun == 1);
  CHECK(same(
      y, relu(-batch_norm(x, {.weight = layer.weight(), .bias = layer.bias(), .training = true}))));
}

namespace {

/** A block of a ResNet, with batch norms called fused (`whole`) or in separate ops. */
template <bool whole> struct NormBlock : nn::Model<NormBlock<whole>> {
  nn::Conv2d conv1 = this->add("conv1", nn::Conv2d{2, 4, 3, {.padding = 1, .bias = false}});
  nn::BatchNorm2d bn1 = this->add("bn1", nn::BatchNorm2d{4});
  nn::Conv2d conv2 = this->add("conv2", nn::Conv2d{4, 4, 3, {.padding = 1, .bias = false}});
  nn::BatchNorm2d bn2 = this->add("bn2", nn::BatchNorm2d{4});
  Tensor forward(const Tensor& x) const {
    const Tensor h = call(bn1, conv1(x), {});
    return call(bn2, conv2(h), h);
  }
  static Tensor call(const nn::BatchNorm2d& layer, const Tensor& x, const Tensor& residual) {
    return whole ? nn::batch_norm_relu(layer, x, residual) : by_parts(layer, x, residual);
  }
};

/** Returns the losses of a few steps, then all values of the state. */
template <bool whole> std::vector<double> trained_losses(const amp::Options& options) {
  manual_seed(12);
  NormBlock<whole> net;
  optim::Adam optimizer(net.parameters(), {.lr = 1e-2});
  const auto session = amp::initialize(net, optimizer, options);
  std::vector<double> out;
  for (int step = 0; step < 4; ++step) {
    const Tensor y = net(randn({3, 2, 5, 4})), loss = mean((y - 1) * (y - 1));
    out.push_back(loss.item<double>());
    amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const auto& entry : net.state_dict())
    for (const double v : values(entry.second)) out.push_back(v);
  return out;
}

}  // namespace

TEST_CASE("training with batch_norm_relu equals training with separate ops, at every level") {
  for (const std::string level : levels::names())
    for (const std::optional<bool> keeps : {std::optional<bool>{}, {false}, {true}}) {
      if (keeps && levels::op_casts(level)) continue;
      INFO(level << (keeps ? *keeps ? ", batch norm kept in f32" : ", batch norm converted" : ""));
      amp::Options options{.opt_level = level, .verbosity = 0};
      if (keeps) options.keep_batchnorm_fp32 = *keeps;
      CHECK(trained_losses<true>(options) == trained_losses<false>(options));
    }
}
