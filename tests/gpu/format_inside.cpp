// Row-major nets of 16-bit convolutions: what they compute channels-last inside, and that nothing
// but time and launches shows it.
#include <algorithm>
#include <functional>

#include "../emulator/counters.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "channels_last.h"
#include "need_device.h"

using namespace channels_last;

namespace {

const Shape kImages{4, 8, 64, 66};  // with 8 channels of a result more than 2^18 numbers

Tensor images(MemoryFormat format, DType dtype = f16) {
  return scattered(kImages, dtype).to(format).requires_grad_();
}

/** Returns whether the tensor is row-major for the program, and has no memory in that order. */
bool is_inside(const Tensor& x) {
  return x.is_contiguous() && x.strides() == contiguous_strides(x.shape()) &&
         x.memory_format() == kRows && x.impl()->storage->is_late();
}

/** Counts elementwise launches and copies. */
std::int64_t elementwise_in(const std::vector<std::string>& launches) {
  return std::count_if(launches.begin(), launches.end(), [](const std::string& name) {
    return name.starts_with("map") || name.starts_with("transpose") || name.starts_with("copy");
  });
}

/** Convolutions, a norm, a residual and a pool, in some format. */
struct Net {
  Tensor first, second, bias, weight;
  explicit Net(MemoryFormat format, DType dtype = f16)
      : first(scattered({8, 8, 3, 3}, dtype).to(format).requires_grad_()),
        second(scattered({16, 8, 3, 3}, dtype).to(format).requires_grad_()),
        bias(scattered({16}, dtype).requires_grad_()),
        weight(scattered({8}, f32).requires_grad_()) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor mean = zeros({8}, {.device = kDevice}), var = mean + 1.5;
    const BatchNormOptions options{
        .running_mean = mean, .running_var = var, .weight = weight, .training = true};
    const Tensor a = batch_norm_relu(conv2d(x, first, {}, {.padding = 1}), options);
    const Tensor b = silu(conv2d(a, first, {}, {.padding = 1})) + a;
    return relu(conv2d(max_pool2d(b, 2), second, bias, {.padding = 1}));
  }
  std::vector<Tensor> results(const Tensor& x) const {
    const Tensor y = (*this)(x);
    std::vector<Tensor> all{y};
    const Tensor g = scattered(y.shape(), y.dtype());
    for (const Tensor& gradient :
         grad(TensorList(y), {x, first, second, bias, weight}, {}, TensorList(g)))
      all.push_back(gradient);
    return all;
  }
};

}  // namespace

TEST_CASE("a row-major 16-bit convolution is channels-last inside", "[gpu][format]") {
  NEED_DEVICE();
  const NoGrad no_grad;
  const Tensor w = scattered({8, 8, 3, 3}, f16), x = images(kRows);
  const Tensor y = conv2d(x, w, {}, {.padding = 1});
  CHECK(is_inside(y));
  CHECK(is_inside(relu(y)));
  CHECK(is_inside(max_pool2d(y, 2)));
  CHECK(is_inside(y.to(f32)));
  CHECK(is_inside(y * 2.0 + y));
  CHECK(is_inside(y.detach()));
  const std::vector<double> expected =
      conv2d(x.to(kLast), w.to(kLast), {}, {.padding = 1}).to_vector<double>();
  const Tensor rows = y.view({4, -1});
  CHECK(is_inside(y));
  CHECK(rows.to_vector<double>() == expected);
  CHECK_FALSE(is_inside(y));
  CHECK(y.to_vector<double>() == expected);
  // Other dtypes, groups, few numbers, odd channels, and what the program made channels-last.
  CHECK_FALSE(is_inside(conv2d(x.to(f32), w.to(f32), {}, {.padding = 1})));
  CHECK_FALSE(is_inside(conv2d(x, scattered({8, 4, 3, 3}, f16), {}, {.groups = 2})));
  CHECK_FALSE(is_inside(conv2d(x.slice(2, 0, 8).slice(3, 0, 8), w)));
  CHECK_FALSE(is_inside(conv2d(x, scattered({7, 8, 3, 3}, f16))));
  CHECK(conv2d(x.to(kLast), w).memory_format() == kLast);
  CHECK(is_inside(conv2d(scattered({4, 3, 96, 96}, f16), scattered({16, 3, 3, 3}, f16))));
}

TEST_CASE("a net that is channels-last inside has the bits of a channels-last net",
          "[gpu][format]") {
  NEED_DEVICE();
  for (const DType dtype : {f16, bf16}) {
    const std::vector<Tensor> rows = Net(kRows, dtype).results(images(kRows, dtype)),
                              last = Net(kLast, dtype).results(images(kLast, dtype));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      INFO(name(dtype) << " result " << i);
      CHECK(rows[i].is_contiguous());
      CHECK(rows[i].memory_format() == kRows);
      CHECK(rows[i].to_vector<double>() == last[i].to_vector<double>());
    }
  }
}

TEST_CASE("a net that is channels-last inside copies only at its ends", "[gpu][format]") {
  NEED_DEVICE();
  const auto copies = [](MemoryFormat format, const Tensor& x) {
    const Net net(format);
    const Tensor g = scattered({4, 16, 32, 33}, f16).to(format);
    const auto run = [&] {
      const Tensor y = net(x);
      y.backward(g);
      for (const Tensor& leaf : {x, net.first, net.second, net.bias, net.weight}) leaf.set_grad({});
    };
    run();
    const emulator::LaunchLog log;
    run();
    return elementwise_in(log.names);
  };
  const std::int64_t last = copies(kLast, images(kLast)), rows = copies(kRows, images(kRows));
  // x twice, each weight forward and backward, g, and the gradients of x and of both weights.
  CHECK(rows - last <= 2 + 6 + 1 + 4);
}

TEST_CASE("what a program does with a result does not show its format inside", "[gpu][format]") {
  NEED_DEVICE();
  const Tensor w = scattered({8, 8, 3, 3}, bf16), x = images(kRows, bf16).detach();
  const auto conv = [&] { return conv2d(x, w, {}, {.padding = 1}); };
  const Tensor expected = conv2d(x.to(kLast), w, {}, {.padding = 1}).to(cpu).contiguous();
  const auto same = [](const Tensor& a, const Tensor& b) {
    CHECK(a.to_vector<double>() == b.to_vector<double>());
  };
  {  // views share memory, also those made before the memory
    const Tensor y = conv(), flat = y.flatten(1), part = y.slice(1, 2, 3),
                 turned = y.transpose(1, 3);
    y.zero_();
    CHECK(flat.abs().sum().item<double>() == 0);
    y.add_(1.0);
    CHECK(part.sum().item<double>() == part.numel());
    CHECK(turned.sum().item<double>() == turned.numel());
  }
  {  // in place, in the memory inside
    const Tensor y = conv(), view = y.view({-1});
    relu_(y);
    CHECK(is_inside(y));
    same(view.view(y.shape()), relu(expected));
    const Tensor z = conv(), other = conv();
    z.add_(other);
    CHECK(is_inside(z));
    same(z, expected + expected);
    same(other, expected);
    z.add_(x);  // row-major
    same(z, expected + expected + x.to(cpu));
  }
  {  // operands of two formats
    const Tensor y = conv();
    same(y + x, expected + x.to(cpu));
    same(x.to(kLast) + y, x.to(cpu) + expected);
    same(y * w.select(0, 0).sum(1).sum(1).view({1, 8, 1, 1}).to(bf16).abs(),
         expected * w.select(0, 0).sum(1).sum(1).view({1, 8, 1, 1}).to(bf16).abs().to(cpu));
    same(cat({y, x}, 1), cat({expected, x.to(cpu)}, 1));
    same(y.mean({2, 3}), expected.to(kDevice).mean({2, 3}));
    same(pad(y, {1, 2, 3, 0}), pad(expected, {1, 2, 3, 0}));
    same(y.clone(), expected);
    same(y.to(kLast), expected);
    CHECK(y.to(kLast).memory_format() == kLast);
    same(y.permute({0, 2, 3, 1}).contiguous(), expected.permute({0, 2, 3, 1}).contiguous());
  }
  {  // copies keep what they were made of
    const Tensor y = conv(), before = y.clone();
    y.mul_(0.0);
    same(before, expected);
  }
  CHECK(conv().data<BFloat16>() != nullptr);
}

TEST_CASE("gradients through a result that is channels-last inside see in-place writes",
          "[gpu][format]") {
  NEED_DEVICE();
  const Tensor w = scattered({8, 8, 3, 3}, f16).requires_grad_(), x = images(kRows);
  {
    const Tensor y = relu(conv2d(x, w, {}, {.padding = 1}));
    y.add_(1.0);  // relu needs its result
    CHECK_THROWS_WITH_AS_TEXT(y.sum().backward(), StateError, "modified");
  }
  const auto gradient = [&](MemoryFormat format, bool in_place) {
    const Tensor v = x.detach().to(format).requires_grad_();
    Tensor y = conv2d(v, w.detach().to(format), {}, {.padding = 1});
    if (in_place)
      relu_(y.mul_(2.0));
    else
      y = relu(y * 2.0);
    const Tensor g = scattered(y.shape(), f16).to(format);
    return grad(TensorList(y), {v}, {}, TensorList(g))[0].to_vector<double>();
  };
  const std::vector<double> expected = gradient(kLast, false);
  CHECK(gradient(kRows, false) == expected);
  CHECK(gradient(kRows, true) == expected);
}

TEST_CASE("ops after a convolution agree, whether they keep its format inside or not",
          "[gpu][format]") {
  NEED_DEVICE();
  const Tensor w = scattered({8, 8, 3, 3}, f16), wide = scattered({1, 8, 1, 1}, f16),
               mask = scattered({4, 8, 64, 66}, f32) > 0.0;
  const nn::GroupNorm group(4, 8);
  group.to(kDevice);
  using F = std::function<Tensor(const Tensor&)>;
  const std::vector<F> all{
      [](const Tensor& y) { return avg_pool2d(y, 2); },
      [](const Tensor& y) { return max_pool2d(y, 3, {.stride = 2, .padding = 1}); },
      [](const Tensor& y) { return adaptive_avg_pool2d(y, 1); },
      [](const Tensor& y) { return interpolate(y, {.scale_factor = 2.0}); },
      [](const Tensor& y) { return pad(y, {1, 1, 2, 0}); },
      [](const Tensor& y) { return softmax(y, 1); },
      [](const Tensor& y) { return cat({y, relu(y)}, 1); },
      [](const Tensor& y) { return gelu(y).flip({2}); },
      [](const Tensor& y) { return y.transpose(2, 3) * 2.0; },
      [](const Tensor& y) { return y.slice(2, 3, 40).slice(1, 1, 5); },
      [](const Tensor& y) { return y.to(f32).mean({2, 3}); },
      [](const Tensor& y) { return sum(y, {0, 2, 3}) + y.amax(1).sum(); },
      [&](const Tensor& y) { return y * wide + wide; },
      [&](const Tensor& y) { return where(mask, y, zeros_like(y)); },
      [&](const Tensor& y) { return group(y.to(f32)); },
      [&](const Tensor& y) { return conv_transpose2d(y, w, {}, {.stride = 2}); },
      [&](const Tensor& y) { return conv2d(y, w.slice(1, 0, 1), {}, {.groups = 8}); },
      [](const Tensor& y) {
        return y.flatten(1).matmul(ones({8 * 64 * 66, 3}, {.dtype = f16, .device = kDevice}) /
                                   4096.0);
      },
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    INFO("function " << i);
    const auto results = [&](bool inside) {
      const Tensor x = images(inside ? kRows : kLast);
      Tensor y = conv2d(x, w.to(inside ? kRows : kLast), {}, {.padding = 1});
      CHECK(is_inside(y) == inside);
      if (!inside) y = y.contiguous();
      const Tensor z = all[i](y), g = scattered(z.shape(), z.dtype());
      return std::vector<Tensor>{z, grad(TensorList(z), {x}, {}, TensorList(g))[0]};
    };
    const std::vector<Tensor> got = results(true), expected = results(false);
    for (std::size_t k = 0; k < got.size(); ++k) {
      const Tensor a = got[k].to(f64), b = expected[k].to(f64);
      CHECK((a - b).abs().amax().item<double>() <= 4e-3 * b.abs().amax().item<double>());
    }
  }
}

TEST_CASE("volumes, transposed convolutions and second gradients are channels-last inside",
          "[gpu][format]") {
  NEED_DEVICE();
  const Tensor volume = scattered({2, 8, 8, 32, 34}, bf16);
  const Tensor kernel = scattered({8, 8, 1, 3, 3}, bf16);
  CHECK(is_inside(conv3d(volume, kernel)));
  CHECK(conv3d(volume, kernel).to_vector<double>() ==
        conv3d(volume.to(kLast), kernel.to(kLast)).to_vector<double>());
  const Tensor w = scattered({8, 16, 4, 4}, bf16);
  CHECK(is_inside(conv_transpose2d(images(kRows, bf16).detach(), w, {}, {.stride = 2})));
  CHECK_FALSE(is_inside(conv2d(images(kRows, bf16).detach()[0], scattered({64, 8, 1, 1}, bf16))));
  const auto penalty = [](MemoryFormat format) {
    const Tensor x = images(format),
                 k = (scattered({8, 8, 3, 3}, f16) / 8.0).to(format).requires_grad_();
    const Tensor y = tanh(conv2d(x, k, {}, {.padding = 1}));
    const Tensor g = grad(TensorList(y), {x}, {.create_graph = true},
                          TensorList(scattered(y.shape(), f16).to(format)))[0];
    return grad(TensorList((g.to(f32) * g.to(f32)).sum() / 1024.0), {k})[0].to(f64).to(cpu);
  };
  const Tensor rows = penalty(kRows), last = penalty(kLast);
  CHECK((rows - last).abs().amax().item<double>() <= 4e-3 * last.abs().amax().item<double>());
  CHECK(last.abs().amax().item<double>() > 0);
}

TEST_CASE("a captured step is channels-last inside", "[gpu][graph][format]") {
  NEED_DEVICE();
  const Net net(kRows);
  Tensor kept;
  gpu::CapturedStep step(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        const Tensor x = in[0].detach().requires_grad_(), y = net(x);
        kept = conv2d(x.detach(), net.first.detach());
        y.backward(ones(y.shape(), {.dtype = f16, .device = kDevice}));
        const Tensor gradient = net.first.grad();
        net.first.set_grad({});
        return {y.detach(), x.grad(), gradient};
      },
      {kDevice});
  for (int i = 0; i < 4; ++i) {
    const Tensor x = (images(kRows).detach() + i * 0.25).to(f16);
    const std::vector<Tensor> results = step({x});
    const Tensor v = x.detach().requires_grad_(), y = net(v);
    CHECK(results[0].to_vector<double>() == y.to_vector<double>());
    const std::vector<Tensor> g =
        grad(TensorList(y), {v, net.first}, {},
             TensorList(ones(y.shape(), {.dtype = f16, .device = kDevice})));
    CHECK(results[1].to_vector<double>() == g[0].to_vector<double>());
    CHECK(results[2].to_vector<double>() == g[1].to_vector<double>());
    CHECK(kept.to_vector<double>() == conv2d(x, net.first.detach()).to_vector<double>());
  }
  CHECK(step.captures() == 1);
}

TEST_CASE("a trace that reads results sees row-major ones", "[gpu][format]") {
  NEED_DEVICE();
  struct Reads : NestedTrace {
    void trace(const OpInfo& info, Inputs, Outputs out) override {
      if (info.traits.name == "conv2d") inside = inside || is_inside(out[0]);
      ++ops;
    }
    bool inside = false;
    int ops = 0;
  } reads;
  const NoGrad no_grad;
  conv2d(images(kRows).detach(), scattered({8, 8, 3, 3}, f16));
  CHECK(reads.ops > 0);
  CHECK_FALSE(reads.inside);
}
