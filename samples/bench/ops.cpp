#include "ops.h"

#include <mezzo.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "../common/program.h"
#include "stopwatch.h"

namespace samples {

using namespace mezzo;

namespace {

/** One call of a measured operation, with its operands. */
using Step = std::function<void()>;

struct NamedStep {
  const char* name;
  Step (*make)();
};

Tensor leaf(const Shape& shape, DType dtype = f32) {
  return randn(shape).to(dtype).detach().requires_grad_();
}

/** Returns a step with forward and backward of f(leaves). The result of f has the shape of g. */
template <class F> Step forward_backward(F f, const Tensor& g, std::vector<Tensor> leaves) {
  return [=] {
    f(leaves).backward(g);
    for (const Tensor& x : leaves) x.set_grad({});
  };
}

using Leaves = std::vector<Tensor>;

Step adam_step() {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 16; ++i) {
    for (const Shape& shape : {Shape{256, 256}, Shape{256}}) {
      parameters.push_back(leaf(shape));
      parameters.back().set_grad(randn(shape));
    }
  }
  const auto optimizer = std::make_shared<optim::Adam>(parameters, optim::AdamOptions{});
  return [optimizer] { optimizer->step(); };
}

Step attention_step() {
  const Shape shape{4, 6, 256, 64};
  return forward_backward(
      [](const Leaves& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); }, randn(shape),
      {leaf(shape), leaf(shape), leaf(shape)});
}

Step conv2d_step() {
  return forward_backward([](const Leaves& x) { return conv2d(x[0], x[1], x[2], {.padding = 1}); },
                          randn({32, 64, 32, 32}),
                          {leaf({32, 64, 32, 32}), leaf({64, 64, 3, 3}), leaf({64})});
}

/** The same convolution of operands of another dtype and layout. In f16 forward only, because
 *  PyTorch, to which it is compared, takes seconds for the gradients. */
template <DType dtype, MemoryFormat format> Step conv2d_of() {
  const auto laid_out = [](const Shape& shape) {
    return randn(shape).to(dtype).contiguous(format).detach();
  };
  const Tensor x = laid_out({32, 64, 32, 32}), weight = laid_out({64, 64, 3, 3});
  const Tensor bias = randn({64}).to(dtype);
  const auto run = [](const Leaves& in) { return conv2d(in[0], in[1], in[2], {.padding = 1}); };
  if constexpr (dtype == f16) return [=] { (void)run({x, weight, bias}); };
  for (const Tensor& leaf : {x, weight, bias}) leaf.requires_grad_();
  return forward_backward(run, laid_out({32, 64, 32, 32}), {x, weight, bias});
}

/** A product of two square matrices, forward only. */
template <DType dtype> Step matmul_of() {
  const Tensor a = randn({1024, 1024}).to(dtype), b = randn({1024, 1024}).to(dtype);
  return [a, b] { (void)matmul(a, b); };
}

/** A layer of 1024 outputs with a batch of 128. */
template <DType dtype> Step linear_of() {
  return forward_backward(
      [](const Leaves& x) { return linear(x[0], x[1], x[2]); }, randn({128, 1024}).to(dtype),
      {leaf({128, 1024}, dtype), leaf({1024, 1024}, dtype), leaf({1024}, dtype)});
}

Step cross_entropy_step() {
  const Tensor classes = randint(0, 1000, {1024});
  return forward_backward([classes](const Leaves& x) { return cross_entropy(x[0], classes); },
                          ones(Shape{}), {leaf({1024, 1000})});
}

Step gelu_step() {
  return forward_backward([](const Leaves& x) { return gelu(x[0]); }, randn({1024, 1024}),
                          {leaf({1024, 1024})});
}

Step layer_norm_step() {
  return forward_backward(
      [](const Leaves& x) { return layer_norm(x[0], {1024}, {.weight = x[1], .bias = x[2]}); },
      randn({1024, 1024}), {leaf({1024, 1024}), leaf({1024}), leaf({1024})});
}

Step lstm_step() {
  constexpr std::int64_t kSteps = 64, kBatch = 16, kSize = 512;
  const auto weight = [](const Shape& shape) {
    return (randn(shape) * 0.04).detach().requires_grad_();
  };
  return forward_backward(
      [](const Leaves& x) {
        return lstm(x[0], {},
                    {{.weight_ih = x[1], .weight_hh = x[2], .bias_ih = x[3], .bias_hh = x[4]}})
            .output;
      },
      randn({kSteps, kBatch, kSize}),
      {leaf({kSteps, kBatch, kSize}), weight({4 * kSize, kSize}), weight({4 * kSize, kSize}),
       weight({4 * kSize}), weight({4 * kSize})});
}

Step softmax_step() {
  return forward_backward([](const Leaves& x) { return softmax(x[0], -1); }, randn({1024, 1000}),
                          {leaf({1024, 1000})});
}

constexpr MemoryFormat kLast = MemoryFormat::channels_last, kFirst = MemoryFormat::contiguous;

constexpr NamedStep kSteps[] = {
    {"adam", adam_step},
    {"attention", attention_step},
    {"conv2d", conv2d_step},
    {"conv2d_bf16", conv2d_of<bf16, kFirst>},
    {"conv2d_f16", conv2d_of<f16, kFirst>},
    {"conv2d_last", conv2d_of<f32, kLast>},
    {"conv2d_last_bf16", conv2d_of<bf16, kLast>},
    {"conv2d_last_f16", conv2d_of<f16, kLast>},
    {"cross_entropy", cross_entropy_step},
    {"gelu", gelu_step},
    {"layer_norm", layer_norm_step},
    {"linear", linear_of<f32>},
    {"linear_bf16", linear_of<bf16>},
    {"linear_f16", linear_of<f16>},
    {"lstm", lstm_step},
    {"matmul", matmul_of<f32>},
    {"matmul_bf16", matmul_of<bf16>},
    {"matmul_f16", matmul_of<f16>},
    {"softmax", softmax_step},
};

Figure measured(const std::string& name, std::int64_t rounds) {
  const auto* found = std::find_if(std::begin(kSteps), std::end(kSteps),
                                   [&](const NamedStep& s) { return name == s.name; });
  if (found == std::end(kSteps))
    throw UsageError("--only: no such operation; got \"" + name + "\"");
  manual_seed(1);
  return {name, 1e3 * median_seconds(static_cast<int>(rounds), 1, found->make())};
}

}  // namespace

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const NamedStep& s : kSteps) names.emplace_back(s.name);
  return names;
}

std::vector<Figure> run_ops(const std::vector<std::string>& names, std::int64_t rounds) {
  std::vector<Figure> figures;
  for (const std::string& name : names) figures.push_back(measured(name, rounds));
  return figures;
}

}  // namespace samples
