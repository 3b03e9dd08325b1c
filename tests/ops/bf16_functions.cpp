// Functions with a form of their own for bf16 numbers (tensor/math/for_bf16.h): for all bf16
// numbers, the result on the CPU and the emulated device is that of f32 on the CPU, rounded. A GPU
// computes some with ex2.approx and rcp.approx: there it is at most one step away. And gelu of f16
// numbers.
#include <mezzo.h>

#include <bit>
#include <cmath>
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "../support/catch.h"
#include "samples.h"

using namespace mezzo;
using cases::same_bits;
using cases::test_device;
using testing::Agreement;
using testing::within_one_step;

namespace {

struct NamedFunction {
  std::string name;
  Tensor (*apply)(const Tensor&);
};

const std::vector<NamedFunction> kNamedFunctions{
    {"exp", [](const Tensor& x) { return exp(x); }},
    {"log", [](const Tensor& x) { return log(x); }},
    {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
    {"silu", [](const Tensor& x) { return silu(x); }},
    {"tanh", [](const Tensor& x) { return tanh(x); }},
    {"gelu", [](const Tensor& x) { return gelu(x); }},
    {"gelu, tanh form",
     [](const Tensor& x) { return gelu(x, {.approximate = GeluApproximation::tanh}); }},
};

/** Returns all bf16 numbers except NaN whose f32 values are in [low, high], in their order of bits,
 *  so that most blocks of a kernel have values of one sign and of similar size. The first ones are
 *  repeated to fill packs, which a device has kernels for. */
Tensor numbers(float low, float high) {
  std::vector<float> values;
  for (unsigned bits = 0; bits < 0x10000; ++bits)
    if (const float x = std::bit_cast<float>(bits << 16); x >= low && x <= high)
      values.push_back(x);
  for (std::size_t i = 0; values.size() % 8 != 0; ++i) values.push_back(values[i]);
  return tensor(values).to(bf16);
}

/** Returns the results for a copy of x on the test's device. */
Tensor function_results(const NamedFunction& function, const Tensor& x) {
  return function.apply(x.to(test_device())).to(cpu);
}

/** Returns the results of f32, rounded. */
Tensor rounded(const NamedFunction& function, const Tensor& x) {
  return function.apply(x.to(f32)).to(bf16);
}

}  // namespace

TEST_CASE("functions of bf16 numbers round the results of f32", "[elementwise][bf16]") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor sets[] = {numbers(-kInf, kInf),         numbers(-9.5f, 9.5f), numbers(-87, 87),
                         numbers(0x1p-126f, 0x1p127f), numbers(1, kInf),     numbers(-kInf, -9)};
  for (const NamedFunction& function : kNamedFunctions)
    for (const Tensor& x : sets) {
      INFO(function.name << ", " << x.numel() << " numbers from " << x[0].item<float>());
      const Agreement in_order =
          within_one_step(function_results(function, x), rounded(function, x), x);
      CHECK(in_order);
      if (in_order.text.find("within one step") == 0)
        std::cout << function.name << ": " << in_order.text << "\n";
      const Tensor mixed = x[randperm(x.numel())];
      CHECK(within_one_step(function_results(function, mixed), rounded(function, mixed), mixed));
    }
}

TEST_CASE("nan and numbers out of range do not change their neighbours", "[elementwise][bf16]") {
  manual_seed(3);
  for (const NamedFunction& function : kNamedFunctions)
    for (const float other : {std::numeric_limits<float>::quiet_NaN(), -200.0f, 200.0f, 0.0f}) {
      const Tensor x = (abs(randn({3000})) + 0.01).to(bf16), y = function_results(function, x);
      x[1500].fill_(other);
      const Tensor z = function_results(function, x);
      INFO(function.name << " with " << other);
      CHECK(same_bits(z.slice(0, 0, 1500), y.slice(0, 0, 1500)));
      CHECK(same_bits(z.slice(0, 1501, 3000), y.slice(0, 1501, 3000)));
      if (std::isnan(other))
        CHECK(std::isnan(z[1500].item<float>()));
      else
        CHECK(within_one_step(z.slice(0, 1500, 1501), rounded(function, x.slice(0, 1500, 1501)),
                              x.slice(0, 1500, 1501)));
    }
}

TEST_CASE("gelu of f16 numbers rounds the result of f32, or rounds correctly",
          "[elementwise][f16]") {
  std::vector<float> values;
  for (unsigned bits = 0; bits < 0x10000; ++bits)
    values.push_back(static_cast<float>(Half::from_bits(static_cast<std::uint16_t>(bits))));
  const Tensor all = tensor(values).to(f16);
  manual_seed(4);
  // In their order whole packs are in the range of the short form, mixed ones hardly any.
  for (const Tensor& x : {all, all[randperm(all.numel())]})
    for (const GeluApproximation form : {GeluApproximation::none, GeluApproximation::tanh}) {
      const GeluOptions options{.approximate = form};
      const auto bits = [](const Tensor& y) { return y.to(f32).to_vector<float>(); };
      const std::vector<float> got = bits(gelu(x.to(test_device()), options).to(cpu)),
                               of_f32 = bits(gelu(x.to(f32), options).to(f16)),
                               nearest = bits(gelu(x.to(f64), options).to(f16)), from = bits(x);
      std::size_t corrected = 0;
      for (std::size_t i = 0; i < got.size(); ++i) {
        const auto same = [&](float other) {
          return (std::isnan(got[i]) && std::isnan(other)) ||
                 std::bit_cast<std::uint32_t>(got[i]) == std::bit_cast<std::uint32_t>(other);
        };
        if (same(of_f32[i])) continue;
        ++corrected;
        INFO("gelu(" << from[i] << ") = " << got[i] << ", of f32 " << of_f32[i]);
        CHECK(same(nearest[i]));
      }
      CHECK(corrected <= (form == GeluApproximation::none ? 64 : 0));
    }
}

TEST_CASE("gradients of gelu of f16 numbers are those of f32, rounded", "[elementwise][f16]") {
  std::vector<float> values;
  for (unsigned bits = 0; bits < 0x10000; ++bits)
    if (const auto x = static_cast<float>(Half::from_bits(static_cast<std::uint16_t>(bits)));
        !std::isnan(x))
      values.push_back(x);
  const Tensor all = tensor(values).to(f16);
  for (const GeluApproximation form : {GeluApproximation::none, GeluApproximation::tanh}) {
    const auto gradient = [&](const Tensor& x) {
      const Tensor leaf = x.detach().requires_grad_(), y = gelu(leaf, {.approximate = form});
      return grad({y}, {leaf}, {},
                  {full(y.shape(), 1.5, {.dtype = y.dtype(), .device = y.device()})})[0];
    };
    CHECK(same_bits(gradient(all.to(test_device())).to(cpu), gradient(all.to(f32)).to(f16)));
  }
}
