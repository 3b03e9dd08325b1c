// Synchronised batch norm on several ranks gives what batch norm gives for the joined batch. Run by
// ../ranks.sh.
#include "sync_batch_norm.h"

using namespace mezzo;
using namespace mezzo::testing;

namespace {

/** How far values, gradients and statistics may be from those computed in f64. */
struct Tolerance {
  double value, gradient, statistic;
};

Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return {1e-12, 1e-12, 1e-12};
    case DType::f16: return {0x1p-10, 0x1p-9, 1e-6};
    case DType::bf16: return {0x1p-7, 0x1p-6, 1e-6};
    case DType::f32: return {1e-6, 1e-5, 1e-6};
    case DType::boolean:
    case DType::u8:
    case DType::i32:
    case DType::i64: break;  // exact
  }
  return {0, 0, 0};
}

/** A synchronised layer on this rank's part of a batch beside batch norm in f64 on all of it. */
template <class Layer> struct Pair {
  Layer ours, whole;
  DType dtype;

  Pair(std::int64_t channels, const nn::BatchNormLayerOptions& options, DType inputs,
       const comm::Communicator& c)
      : ours(channels, options), whole(channels, options), dtype(inputs) {
    if (options.affine) {
      const NoGrad no_grad;
      ours.weight().copy_(shared_randn({channels}, 5));
      ours.bias().copy_(shared_randn({channels}, 6));
    }
    if (dtype == f64) ours.to(f64);
    whole.to(f64);
    whole.load_state_dict(ours.state_dict());
    CHECK(nn::convert_sync_batch_norm(ours, {.comm = c}) == 1);
  }

  /** Trains on one batch and compares everything. */
  void step(const Tensor& batch, const Parts& parts, MemoryFormat format, std::uint64_t seed) {
    const Tolerance near = tolerance_of(dtype);
    const Tensor rounded = batch.to(dtype), g = shared_randn(batch.shape(), seed).to(dtype);
    const Tensor x = part_of(rounded, parts).contiguous(format).requires_grad_();
    const Tensor all = rounded.to(f64).clone().requires_grad_();
    for (const nn::Module& net : std::vector<nn::Module>{ours, whole}) net.zero_grad();

    const Tensor y = ours(x), expected = whole(all);
    CHECK(y.dtype() == dtype);
    CHECK(y.memory_format() == x.memory_format());
    CHECK(distance(y, part_of(expected, parts)) < near.value);
    y.backward(part_of(g, parts));
    expected.backward(g.to(f64));
    REQUIRE(x.grad().defined());
    CHECK(x.grad().dtype() == dtype);
    CHECK(distance(x.grad(), part_of(all.grad(), parts)) < near.gradient);

    const auto own = ours.named_parameters(), theirs = whole.named_parameters();
    for (std::size_t i = 0; i < own.size(); ++i) {
      INFO(own[i].name);
      REQUIRE(own[i].tensor.grad().defined());
      CHECK(distance(sum_over_ranks(own[i].tensor.grad()), theirs[i].tensor.grad()) <
            near.gradient);
    }
    const auto buffers = ours.named_buffers(), others = whole.named_buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      INFO(buffers[i].name);
      CHECK(distance(buffers[i].tensor, others[i].tensor) < near.statistic);
      CHECK(same_on_all_ranks(buffers[i].tensor));
    }
  }
};

Shape with_samples(Shape shape, std::int64_t samples) {
  shape[0] = samples;
  return shape;
}

/** Trains three steps; `shape` is that of one sample's batch. */
template <class Layer>
void check_like_joined(const Shape& shape, const nn::BatchNormLayerOptions& options,
                       DType dtype = f32, MemoryFormat format = MemoryFormat::contiguous) {
  const auto c = world().all();
  for (const Parts& parts : all_parts()) {
    INFO(parts.name << ", " << str(shape) << ", " << name(dtype) << ", " << name(format));
    Pair<Layer> pair(shape[1], options, dtype, c);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const Tensor batch = shared_randn(with_samples(shape, parts.before(c.size())), 10 + step);
      pair.step(batch + 0.5 * static_cast<double>(step), parts, format, 20 + step);
    }
  }
}

}  // namespace

TEST_CASE("all layers, dtypes and options give what batch norm gives for the joined batch",
          "[sync_batch_norm]") {
  for (const DType dtype : {f32, f64, f16, bf16}) {
    check_like_joined<nn::BatchNorm1d>({1, 7}, {}, dtype);
    check_like_joined<nn::BatchNorm1d>({1, 4, 5}, {}, dtype);
    check_like_joined<nn::BatchNorm2d>({1, 6, 3, 2}, {}, dtype);
    check_like_joined<nn::BatchNorm3d>({1, 3, 2, 3, 2}, {}, dtype);
  }
  check_like_joined<nn::BatchNorm2d>({1, 6, 3, 2}, {.eps = 1e-2, .momentum = 0.5});
  check_like_joined<nn::BatchNorm2d>({1, 6, 3, 2}, {.momentum = {}});
  check_like_joined<nn::BatchNorm2d>({1, 6, 3, 2}, {.affine = false});
  check_like_joined<nn::BatchNorm2d>({1, 6, 3, 2}, {.track_running_stats = false});
  check_like_joined<nn::BatchNorm2d>({1, 5, 64, 65}, {});
}

TEST_CASE("channels-last images of any number of channels", "[sync_batch_norm]") {
  for (const std::int64_t channels : {1, 3, 65, 100, 257})
    for (const DType dtype : {f32, f16}) {
      check_like_joined<nn::BatchNorm2d>({1, channels, 3, 2}, {}, dtype,
                                         MemoryFormat::channels_last);
      check_like_joined<nn::BatchNorm2d>({1, channels, 3, 2}, {}, dtype);
    }
  check_like_joined<nn::BatchNorm3d>({1, 65, 2, 3, 2}, {}, f32, MemoryFormat::channels_last);
}

TEST_CASE("inputs with gaps between their elements", "[sync_batch_norm]") {
  const auto c = world().all();
  const Tensor wide = shared_randn({3 * c.size(), 4, 3, 10}, 1).to(f32);
  const Parts& parts = all_parts()[0];
  const nn::BatchNorm2d ours(4), dense(4);
  nn::convert_sync_batch_norm(ours, {.comm = c});
  nn::convert_sync_batch_norm(dense, {.comm = c});
  const Tensor x = part_of(wide, parts).narrow(3, 2, 6);
  REQUIRE_FALSE(x.is_contiguous());
  CHECK(distance(ours(x), dense(x.contiguous())) == 0);
  CHECK(distance(ours(x.permute({0, 1, 3, 2})), dense(x.permute({0, 1, 3, 2}).contiguous())) == 0);
}

TEST_CASE("values far from 0 keep their variance", "[sync_batch_norm]") {
  const auto c = world().all();
  const Tensor batch = shared_randn({8 * c.size(), 3}, 3) + 1e4;
  const Parts parts{"8 each", [](int) { return 8; }};
  const nn::BatchNorm1d ours(3), whole(3);
  nn::convert_sync_batch_norm(ours, {.comm = c});
  whole.to(f64);
  const Tensor rounded = batch.to(f32);
  CHECK(distance(ours(part_of(rounded, parts)), part_of(whole(rounded.to(f64)), parts)) < 2e-3);
  const Tensor huge = full({4, 3}, 1e200, {.dtype = f64});
  CHECK(distance(ours(huge), zeros({4, 3})) == 0);
}

TEST_CASE("values whose squares overflow are normalised as others", "[sync_batch_norm]") {
  const auto c = world().all();
  const Parts parts{"8 each", [](int) { return 8; }};
  for (const DType dtype : {f32, f64, bf16}) {
    CAPTURE(name(dtype));
    const double size = dtype == f64 ? 0x1p600 : 0x1p70;
    // a channel of such numbers, one of usual numbers, and one of a huge constant
    const Tensor usual = shared_randn({8 * c.size(), 3}, 3).to(dtype);
    usual.select(1, 2).fill_(1);
    const Tensor factors = tensor({size, 1.0, size}, {.dtype = f64}).to(dtype);
    const nn::BatchNorm1d small(3), large(3);
    for (const nn::BatchNorm1d* const layer : {&small, &large}) {
      layer->to(dtype == f64 ? f64 : f32);
      REQUIRE(nn::convert_sync_batch_norm(*layer, {.comm = c}) == 1);
    }
    const Tensor x = part_of(usual, parts).clone().requires_grad_(),
                 scaled = part_of(usual * factors, parts).clone().requires_grad_();
    const Tensor weights = shared_randn({8 * c.size(), 3}, 5).to(dtype);
    const Tensor y = small(x), huge = large(scaled);
    CHECK(distance(huge.select(1, 0), y.select(1, 0)) < (dtype == bf16 ? 0.02 : 1e-4));
    CHECK(distance(huge.select(1, 1), y.select(1, 1)) == 0);
    CHECK(distance(huge.select(1, 2), zeros({8})) == 0);
    sum(y * part_of(weights, parts)).backward();
    sum(huge * part_of(weights, parts)).backward();
    const Tensor gradient = scaled.grad().to(f64) * tensor({size, 1.0, 0.0}, {.dtype = f64}),
                 expected = x.grad().to(f64) * tensor({1.0, 1.0, 0.0}, {.dtype = f64});
    CHECK(distance(gradient, expected) < (dtype == bf16 ? 0.05 : 1e-3));
    CHECK(distance(large.running_mean().select(0, 1), small.running_mean().select(0, 1)) == 0);
    CHECK(distance(large.running_var().select(0, 1), small.running_var().select(0, 1)) == 0);
    CHECK(isfinite(large.running_mean()).all().item<bool>());
  }
}

TEST_CASE("statistics have the same bits on all ranks", "[sync_batch_norm]") {
  const auto c = world().all();
  manual_seed(static_cast<std::uint64_t>(c.rank()) + 1);  // another batch on each rank
  const nn::BatchNorm2d layer(65);
  nn::convert_sync_batch_norm(layer, {.comm = c});
  for (int step = 0; step < 20; ++step) {
    layer(randn({c.rank() + 1, 65, 5, 3}) * 3.0 + 1.0);
    CHECK(same_on_all_ranks(layer.running_mean()));
    CHECK(same_on_all_ranks(layer.running_var()));
  }
}

TEST_CASE("one value per channel on all ranks together is an error on all ranks",
          "[sync_batch_norm]") {
  const auto c = world().all();
  const nn::BatchNorm1d layer(3);
  nn::convert_sync_batch_norm(layer, {.comm = c});
  const Tensor one = ones({c.rank() == c.size() - 1 ? 1 : 0, 3});
  std::string text;
  try {
    layer(one);
  } catch (const ShapeError& e) {
    text = e.what();
  }
  CHECK(text.starts_with("batch_norm: one value per channel has no variance to train on; got "));
  CHECK(layer.running_mean().to_vector<double>() == std::vector<double>{0, 0, 0});
  CHECK(layer.num_batches_tracked().item<int>() == 0);
  if (c.size() == 1) return;
  CHECK(layer(ones({1, 3})).shape() == Shape{1, 3});  // one value on each rank has a variance
  CHECK(layer.num_batches_tracked().item<int>() == 1);
}

TEST_CASE("an empty batch on all ranks changes no statistics", "[sync_batch_norm]") {
  const nn::BatchNorm1d layer(3);
  nn::convert_sync_batch_norm(layer, {.comm = world().all()});
  const Tensor x = zeros({0, 3}, {.requires_grad = true});
  const Tensor y = layer(x);
  CHECK(y.shape() == Shape{0, 3});
  y.backward(zeros({0, 3}));
  CHECK(x.grad().shape() == Shape{0, 3});
  CHECK(layer.weight().grad().to_vector<double>() == std::vector<double>{0, 0, 0});
  CHECK(layer.running_var().to_vector<double>() == std::vector<double>{1, 1, 1});
}

TEST_CASE("wrong arguments are errors before anything is exchanged", "[sync_batch_norm]") {
  const auto c = world().all();
  const nn::BatchNorm2d layer(3);
  nn::convert_sync_batch_norm(layer, {.comm = c});
  if (c.rank() == 0) {
    CHECK_THROWS_AS(layer(ones({2, 4, 2, 2})), ShapeError);
    CHECK_THROWS_AS(layer(ones({2, 3})), ShapeError);
    CHECK_THROWS_AS(layer(ones({2, 3, 2, 2}, {.dtype = i64})), DtypeError);
    const nn::BatchNorm2d negative(3, {.eps = -1});
    negative.state().statistics_group = layer.state().statistics_group;
    CHECK_THROWS_AS(negative(ones({2, 3, 2, 2})), ValueError);
  }
  CHECK(layer(ones({2, 3, 2, 2})).shape() == Shape{2, 3, 2, 2});
  CHECK(layer.num_batches_tracked().item<int>() == 1);
}

TEST_CASE("a gradient with a graph is refused", "[sync_batch_norm]") {
  const Tensor x = shared_randn({4, 3}, 1).requires_grad_();
  const Tensor y = detail::sync_batch_norm(x, {.training = true}, world().all());
  CHECK_THROWS_AS(grad({sum(y)}, {x}, {.create_graph = true}), Unsupported);
}

TEST_CASE("parameters alone are trained without an exchange in backward", "[sync_batch_norm]") {
  const auto c = world().all();
  const nn::BatchNorm1d layer(3);
  nn::convert_sync_batch_norm(layer, {.comm = c});
  const Tensor y = layer(shared_randn({4, 3}, 1).to(f32)), g = shared_randn({4, 3}, 2).to(f32);
  if (c.rank() == 0) {  // the others would not answer
    y.backward(g);
    CHECK(distance(layer.bias().grad(), sum(g, 0)) < 1e-5);
    CHECK(distance(layer.weight().grad(), sum(g * y.detach(), 0)) < 1e-5);
  }
  c.barrier();
}
