// Recurrent layers on any device, by cuDNN where allowed and by our own kernels: they agree with
// the CPU.
#include "recurrent.h"

#include <optional>

using namespace recurrent;

TEST_CASE("recurrent layers and gradients agree with the CPU, deterministic or not",
          "[gpu][recurrent]") {
  NEED_DEVICE();
  for (const bool may_vary : {false, true}) {
    std::optional<AnyBits> any;
    if (may_vary) any.emplace();
    for (const DType dtype : {f32, f16, bf16, f64})
      for (const LayerCase& c : kLayerCases) {
        INFO(name(dtype) << " case " << (&c - kLayerCases.data())
                         << (may_vary ? ", any bits" : ""));
        check_against_cpu(c, dtype);
      }
  }
}

TEST_CASE("recurrent layers that cuDNN may compute agree with our own kernels and keep NaN",
          "[gpu][recurrent]") {
  NEED_DEVICE();
  const AnyBits any;
  std::vector<LayerCase> cases = kLayerCases;
  for (const CellKind kind : {CellKind::tanh, CellKind::relu, CellKind::gru, CellKind::lstm})
    cases.push_back({.kind = kind, .steps = 3, .batch = 8, .features = 128, .hidden = 128});
  for (const DType dtype : {f32, f16, bf16, f64})
    for (const LayerCase& c : cases) {
      INFO(name(dtype) << " case " << (&c - cases.data()));
      CHECK(layer_agrees_with_own_kernels(c, dtype));
      CHECK(nan_comes_through(c, dtype));
    }
}

TEST_CASE("a retained graph through a recurrent layer can be used twice", "[gpu][recurrent]") {
  NEED_DEVICE();
  for (const bool may_vary : {false, true}) {
    std::optional<AnyBits> any;
    if (may_vary) any.emplace();
    const LayerCase c{.kind = CellKind::gru};
    std::vector<Tensor> t = operands_of(c, f32);
    for (Tensor& x : t) x = x.to(kDevice).requires_grad_();
    const Tensor y = sum(layer(c, t));
    const auto walk = [&] { return grad(std::span(&y, 1), t, {.retain_graph = true}); };
    const std::vector<Tensor> first = walk(), second = walk();
    for (std::size_t i = 0; i < first.size(); ++i)
      CHECK(distance(second[i].to(cpu), first[i].to(cpu)) <= (may_vary ? 1e-5 : 0));
  }
}

TEST_CASE("a captured recurrent layer gives the same results as an eager one",
          "[gpu][recurrent][graph]") {
  NEED_DEVICE();
  for (const bool may_vary : {false, true}) {
    std::optional<AnyBits> any;
    if (may_vary) any.emplace();
    const LayerCase c{.kind = CellKind::lstm};
    std::vector<Tensor> t = operands_of(c, f32);
    for (Tensor& x : t) x = x.to(kDevice);
    const NoGrad no_grad;
    gpu::CapturedStep step([&](const std::vector<Tensor>& in) { return std::vector{layer(c, in)}; },
                           {kDevice});
    const Tensor eager = layer(c, t).to(cpu);
    for (int i = 0; i < 4; ++i) CHECK(distance(step(t)[0].to(cpu), eager) < 1e-5);
  }
}
