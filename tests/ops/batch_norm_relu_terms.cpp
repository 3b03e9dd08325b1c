// batch_norm_relu with a residual whose result is read more than once: its gradient kernels add the
// last two gradients of the result. The same bits as of separate ops, whose gradients the engine
// adds.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "../support/catch.h"
#include "../support/values.h"
#include "joined.h"

using namespace mezzo;
using namespace cases::joined;
using testing::kLast;
using testing::kRows;

namespace {

/** Returns numbers with few digits, of both signs. */
Tensor scattered(const Shape& shape, DType dtype, int seed, MemoryFormat format = kRows) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i)
    values.push_back(static_cast<double>((i * 7919 + seed * 31) % 23) / 16 - 0.6);
  return tensor(values, shape).to(dtype).to(cases::test_device()).to(format);
}

/** A batch norm with a residual, as one op or as separate ones. */
struct Block {
  Tensor x, residual, weight, bias;
  bool training = true;

  Block(const Shape& shape, DType dtype, MemoryFormat format = kRows, bool trains = true)
      : x(scattered(shape, dtype, 1, format).requires_grad_()),
        residual(scattered(shape, dtype, 2, format).requires_grad_()),
        weight((scattered({shape[1]}, f32, 3) + 1).requires_grad_()),
        bias(scattered({shape[1]}, f32, 4).requires_grad_()),
        training(trains) {}

  Tensor result(bool joined) const {
    const Tensor mean = zeros({x.size(1)}, {.device = x.device()}), var = mean + 1.5;
    const BatchNormOptions options{.running_mean = mean,
                                   .running_var = var,
                                   .weight = weight,
                                   .bias = bias,
                                   .training = training};
    return joined ? batch_norm_relu(x, options, residual) : relu(batch_norm(x, options) + residual);
  }
  std::vector<Tensor> leaves() const {
    std::vector<Tensor> all;
    for (const Tensor& t : {x, residual, weight, bias})
      if (t.requires_grad()) all.push_back(t);
    return all;
  }
};

/** Reads the result y of a block; returns what the block's leaves are differentiated from. */
using Reader = std::function<Tensor(const Tensor& y)>;

/** Returns the gradients of the leaves, accumulated into leaves or not. */
std::vector<Tensor> block_gradients(const Block& block, bool joined, const Reader& reader,
                                    bool accumulates = false) {
  const std::vector<Tensor> leaves = block.leaves();
  const Tensor z = reader(block.result(joined));
  const Tensor g = scattered(z.shape(), z.dtype(), 5, z.memory_format());
  if (!accumulates) return grad(TensorList(z), leaves, {}, TensorList(g));
  std::vector<Tensor> all;
  backward(TensorList(z), TensorList(g));
  for (const Tensor& leaf : leaves) {
    all.push_back(leaf.grad().clone());
    leaf.set_grad({});
  }
  return all;
}

testing::Agreement same_gradients(const Block& block, const Reader& reader,
                                  bool accumulates = false) {
  return same_bits(block_gradients(block, true, reader, accumulates),
                   block_gradients(block, false, reader, accumulates));
}

/** Two consumers with gradients in memory of their own. */
Tensor read_twice(const Tensor& y) { return y * 1.5 + y * 0.3; }

}  // namespace

TEST_CASE("batch_norm_relu adds two gradients of its result with the bits of the engine", "[ops]") {
  for (const DType dtype : {f64, f32, f16, bf16})
    for (const bool training : {true, false})
      for (const Shape& shape :
           {Shape{4, 3}, Shape{6, 8}, Shape{3, 8, 1, 1}, Shape{2, 3, 7, 7}, Shape{2, 5, 13, 13},
            Shape{2, 8, 4, 4}, Shape{2, 16, 2, 2}, Shape{3, 2, 4}, Shape{2, 3, 2, 3, 4},
            Shape{0, 2, 3}, Shape{2, 1, 1200}}) {
        INFO(name(dtype) << " " << str(shape) << (training ? ", training" : ", evaluation"));
        CHECK(same_gradients(Block(shape, dtype, kRows, training), read_twice));
        if (shape.rank() == 4)
          CHECK(same_gradients(Block(shape, dtype, kLast, training), read_twice, true));
      }
}

TEST_CASE("batch_norm_relu adds two gradients where a channel exceeds a block", "[ops]") {
  for (const DType dtype : {f32, f16, bf16}) {
    INFO(name(dtype));
    CHECK(same_gradients(Block({4100, 256}, dtype), read_twice));  // rows of packs
  }
  CHECK(same_gradients(Block({2, 2, 260, 256}, f16), read_twice));         // packs
  CHECK(same_gradients(Block({1, 2, 230, 290}, bf16), read_twice, true));  // half packs
  CHECK(same_gradients(Block({5000, 33}, f16), read_twice));               // neither
}

TEST_CASE("batch_norm_relu adds two gradients as accurately as f64 does", "[ops]") {
  const Block low({5, 6, 3, 4}, f32);
  Block wide({5, 6, 3, 4}, f64);
  const NoGrad no_grad;
  wide.x.copy_(low.x);
  wide.residual.copy_(low.residual);
  wide.weight = low.weight.to(f64).requires_grad_();
  wide.bias = low.bias.to(f64).requires_grad_();
  const GradMode grads(true);
  const std::vector<Tensor> got = block_gradients(low, true, read_twice),
                            expected = block_gradients(wide, false, read_twice);
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(cases::difference(cases::to_array(got[i]), cases::to_array(expected[i]), {1e-5, 1e-5}) ==
          "");
}

TEST_CASE("batch_norm_relu adds gradients of any number of consumers, layout and origin", "[ops]") {
  const auto scaled = [](const Tensor& y, double by) { return y * by; };
  const std::pair<const char*, Reader> readers[] = {
      {"one", [&](const Tensor& y) { return scaled(y, 1.5); }},
      {"three", [&](const Tensor& y) { return scaled(y, 1.5) + scaled(y, 0.3) + scaled(y, 0.7); }},
      {"four", [&](const Tensor& y) { return read_twice(y) + read_twice(y); }},
      {"the same gradient twice", [](const Tensor& y) { return y + y; }},
      {"one of them unused",
       [&](const Tensor& y) { return scaled(y, 1.5) + scaled(y, 0.3) + scaled(y, 0.7).detach(); }},
      {"a broadcast gradient",
       [&](const Tensor& y) { return scaled(y, 1.5) + sum(y, {0, 2, 3}, {.keepdim = true}); }},
      {"two broadcast gradients",
       [](const Tensor& y) {
         return sum(y, 1, {.keepdim = true}) + sum(y, {0, 2, 3}, {.keepdim = true});
       }},
      {"slices", [](const Tensor& y) { return y.slice(1, 0, 2) + y.slice(1, 1, 3); }},
      {"a slice and the whole",
       [&](const Tensor& y) { return scaled(y, 1.5).slice(1, 0, 2) + y.slice(1, 1, 3); }},
      {"transposed gradients",
       [&](const Tensor& y) {
         return (y.transpose(2, 3) * 1.5).contiguous() + (y.transpose(2, 3) * 0.3).contiguous();
       }},
      {"another layout",
       [&](const Tensor& y) { return (scaled(y, 1.5) + (y * 0.3).to(kLast)).to(kRows); }},
      {"f32", [&](const Tensor& y) { return y.to(f32) * 1.5 + y.to(f32) * 0.3; }},
      {"f32 and its own dtype", [&](const Tensor& y) { return y.to(f32) * 1.5 + scaled(y, 0.3); }},
  };
  for (const DType dtype : {f32, f16, bf16})
    for (const MemoryFormat format : {kRows, kLast})
      for (const auto& [what, reader] : readers) {
        INFO(name(dtype) << ", " << what << (format == kLast ? ", channels-last" : ""));
        const Block block({3, 8, 5, 4}, dtype, format);
        CHECK(same_gradients(block, reader));
        CHECK(same_gradients(block, reader, true));
      }
}

TEST_CASE("batch_norm_relu leaves the gradients that it adds as they are", "[ops]") {
  for (const DType dtype : {f32, bf16}) {
    INFO(name(dtype));
    const Block block({3, 8, 4, 4}, dtype);
    const Tensor other = scattered({3, 8, 4, 4}, dtype, 6).requires_grad_(),
                 third = scattered({3, 8, 4, 4}, dtype, 7).requires_grad_(),
                 g = scattered({3, 8, 4, 4}, dtype, 8), before = g.clone();
    const Tensor y = block.result(true), z = (y + other) + (y + third);
    backward(TensorList(z), TensorList(g));
    CHECK(same_bits({g, other.grad(), third.grad()}, {before, before, before}));
    CHECK_FALSE(same_bits({block.residual.grad()}, {before}));
  }
}

TEST_CASE("hooks and requests see the sum of the gradients of batch_norm_relu", "[ops]") {
  for (const DType dtype : {f32, f16}) {
    INFO(name(dtype));
    const Block block({3, 8, 4, 4}, dtype);
    const auto seen = [&](bool joined) {
      std::vector<Tensor> all;
      const Reader with_hook = [&](const Tensor& y) {
        register_hook(y, [&](const Tensor& g) {
          all.push_back(g.clone());
          return g * 2;
        });
        return read_twice(y);
      };
      for (const Tensor& g : block_gradients(block, joined, with_hook)) all.push_back(g);
      Tensor retained;
      const Reader retaining = [&](const Tensor& y) {
        retained = y;
        y.retain_grad();
        return read_twice(y);
      };
      for (const Tensor& g : block_gradients(block, joined, retaining, true)) all.push_back(g);
      all.push_back(retained.grad());
      const Tensor y = block.result(joined), z = read_twice(y);
      const Tensor seed = scattered(z.shape(), dtype, 9);
      for (const Tensor& g : grad(TensorList(z), {y, block.x}, {}, TensorList(seed)))
        all.push_back(g);
      return all;
    };
    const std::vector<Tensor> joined = seen(true);
    CHECK(joined.size() == 12);
    CHECK(same_bits(joined, seen(false)));
    // A hook that is registered on the result in the backward pass, by a hook of a consumer.
    const auto late = [&](bool is_joined) {
      std::vector<Tensor> all;
      const Reader reader = [&](const Tensor& y) {
        const Tensor a = y * 1.5, b = y * 0.3;
        register_hook(a, [&, y](const Tensor&) {
          register_hook(y, [&](const Tensor& g) {
            all.push_back(g.clone());
            return Tensor{};
          });
          return Tensor{};
        });
        return a + b;
      };
      for (const Tensor& g : block_gradients(block, is_joined, reader)) all.push_back(g);
      return all;
    };
    CHECK(late(true).size() == 5);
    CHECK(same_bits(late(true), late(false)));
  }
}

TEST_CASE("batch_norm_relu adds two gradients for frozen operands", "[ops]") {
  for (int wanted = 1; wanted < 16; ++wanted) {
    const Block block({6, 5, 3}, f16);
    const Tensor all[] = {block.x, block.weight, block.bias, block.residual};
    for (int i = 0; i < 4; ++i) all[i].requires_grad_((wanted >> i & 1) != 0);
    INFO("wanted " << wanted);
    CHECK(same_gradients(block, read_twice));
  }
}

TEST_CASE("second gradients and kept graphs of batch_norm_relu with two consumers", "[ops]") {
  const Block block({4, 3, 2}, f64);
  const auto second = [&](bool joined) {
    const Tensor z = read_twice(block.result(joined));
    Tensor total = zeros({}, {.dtype = f64, .device = z.device()});
    for (const Tensor& g : grad({sum(z * z * z)}, block.leaves(), {.create_graph = true}))
      total = total + sum(g * g);
    return grad({total}, block.leaves());
  };
  const std::vector<Tensor> joined = second(true), parts = second(false);
  for (std::size_t i = 0; i < parts.size(); ++i)
    CHECK(cases::difference(cases::to_array(joined[i]), cases::to_array(parts[i]),
                            {1e-11, 1e-11}) == "");
  const Tensor z = read_twice(block.result(true));
  const std::vector<Tensor> once = grad({sum(z)}, block.leaves(), {.retain_graph = true});
  CHECK(same_bits(grad({sum(z)}, block.leaves()), once));
}

TEST_CASE("batch_norm_relu adds two gradients within recomputed functions", "[ops]") {
  for (const DType dtype : {f32, bf16}) {
    INFO(name(dtype));
    const auto through = [&](bool recomputes) {
      const Block block({3, 8, 4, 4}, dtype);
      const auto net = [&](const Tensor& x) {
        Block inner = block;
        inner.x = x;
        return read_twice(inner.result(true));
      };
      const Tensor z = recomputes ? nn::checkpoint(net, block.x) : net(block.x);
      return grad(TensorList(z), block.leaves(), {}, TensorList(scattered(z.shape(), dtype, 5)));
    };
    CHECK(same_bits(through(true), through(false)));
  }
}

TEST_CASE("infinities and nan in either gradient pass through batch_norm_relu", "[ops]") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double kNan = std::nan("");
  for (const DType dtype : {f32, f16, bf16})
    for (const Shape& shape : {Shape{4, 8, 3}, Shape{4, 8, 4}, Shape{4, 8, 8}}) {
      INFO(name(dtype) << " " << str(shape));
      const Block block(shape, dtype);
      const double most = dtype == f16 ? 65504 : 3e38;  // the sum of two overflows
      const std::pair<double, double> pairs[] = {
          {kInfinity, 1}, {1, -kInfinity},         {kNan, 1},
          {1, kNan},      {kInfinity, -kInfinity}, {most, most}};
      for (const auto& pair : pairs) {
        INFO(pair.first << " and " << pair.second);
        const auto with = [&](bool joined) {
          const Tensor y = block.result(joined), a = y * 1, b = y * 1;
          return grad(std::vector{a, b}, block.leaves(), {},
                      std::vector{full_like(a, pair.first), full_like(b, pair.second)});
        };
        const std::vector<Tensor> joined = with(true);
        CHECK(same_numbers(joined, with(false)));
        CHECK_FALSE(all(isfinite(joined[1].to(f32))).item<bool>());  // of the residual
        CHECK_FALSE(all(isfinite(joined[2])).item<bool>());          // of the weight
      }
    }
}
