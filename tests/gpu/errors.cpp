// Errors on a device: out of memory at any point of an op, devices that do not exist, operands on
// two devices. ../ops/bad_calls.cpp checks for every op that bad shapes, dtypes and values give the
// CPU's error texts.
#include <mezzo.h>

#include <functional>

#include "../support/catch.h"
#include "../support/throws.h"
#include "device.h"
#include "need_device.h"

using namespace mezzo;
using testing::kDevice;

namespace {

Tensor device_counting(const Shape& shape, DType dtype = f32) {
  return arange(static_cast<double>(checked_numel(shape, "test")), {.dtype = dtype})
      .view(shape)
      .to(kDevice);
}

Tensor places(const Shape& shape, int bound) {
  return remainder(device_counting(shape, i64) * 7919, bound);
}

Tensor counting_leaf(const Shape& shape) { return device_counting(shape).requires_grad_(); }

struct FailingWork {
  const char* name;
  std::function<Tensor()> run;
};

/** Returns ops that allocate in several places: results, workspace, copies, gradients. */
std::vector<FailingWork> works() {
  const Tensor x = device_counting({40, 50}), long_line = places({5000}, 997).to(f32),
               rows = places({30}, 40);
  return {
      {"elementwise", [=] { return x.t() * 2 + x.t(); }},
      {"sum", [=] { return sum(device_counting({20000})); }},
      {"sort of short lines", [=] { return sort(x.t()).values; }},
      {"sort of long lines", [=] { return sort(long_line).values; }},
      {"topk", [=] { return topk(x, 3, {.sorted = false}).values; }},
      {"cumsum", [=] { return cumsum(long_line, 0); }},
      {"nonzero", [=] { return nonzero(x); }},
      {"unique", [=] { return unique(long_line, {.return_inverse = true}).inverse; }},
      {"index_add", [=] { return index_add(x, 0, rows, device_counting({30, 50})); }},
      {"index_put", [=] { return index_put(x, {rows, rows}, device_counting({30})); }},
      {"scatter", [=] { return scatter(x, 1, places({40, 9}, 50), device_counting({40, 9})); }},
      {"cat", [=] { return cat({x, x.to(f16), x.t().contiguous().view({40, 50})}); }},
      {"matmul", [=] { return matmul(x, x.t()); }},
      {"cdist", [=] { return cdist(x, x, {.p = 1}); }},
      {"embedding's gradient",
       [=] {
         const Tensor table = counting_leaf({40, 8});
         embedding(rows, table).backward(ones({30, 8}, {.device = kDevice}));
         return table.grad();
       }},
      {"a classifier's gradient",
       [=] {
         const Tensor weight = counting_leaf({6, 50});
         const Tensor hidden = layer_norm(linear(x * 0.001, weight), {6});
         cross_entropy(hidden, places({40}, 6)).backward();
         return weight.grad();
       }},
      {"convolution's gradient",
       [=] {
         const Tensor weight = counting_leaf({3, 2, 3, 3});
         conv2d(device_counting({2, 2, 7, 7}), weight)
             .backward(ones({2, 3, 5, 5}, {.device = kDevice}));
         return weight.grad();
       }},
  };
}

}  // namespace

TEST_CASE(
    "wherever an op runs out of memory, it throws OutOfMemory, leaks nothing and the next call "
    "succeeds",
    "[gpu][memory]") {
  NEED_DEVICE();
  Allocator& allocator = allocator_for(kDevice);
  for (const FailingWork& work : works()) {
    INFO(work.name);
    const std::vector<double> expected = work.run().to_vector<double>();
    const std::int64_t before = memory_stats(kDevice).total.current;
    int failed = 0;
    for (bool succeeds = false; !succeeds && failed < 200;) {
      allocator.fail_nth(failed + 1);
      try {
        const Tensor y = work.run();
        allocator.fail_nth(0);
        CHECK(y.to_vector<double>() == expected);
        succeeds = true;
      } catch (const OutOfMemory& e) {
        ++failed;
        CHECK(std::string(e.what()).find("cuda:0") != std::string::npos);
      }
      allocator.fail_nth(0);
      CHECK(memory_stats(kDevice).total.current == before);
    }
    CHECK(failed > 0);
    CHECK(failed < 200);
    CHECK(work.run().to_vector<double>() == expected);
  }
}

TEST_CASE("an in-place op that runs out of memory leaves its operand unchanged", "[gpu][memory]") {
  NEED_DEVICE();
  const Tensor rows = places({3000}, 40), values = device_counting({3000, 5});
  const std::function<void(const Tensor&)> works[] = {
      [&](const Tensor& x) { index_add_(x, 0, rows, values); },
      [&](const Tensor& x) { index_copy_(x, 0, rows, values); },
      [&](const Tensor& x) { index_put_(x, {rows}, values, {.accumulate = true}); },
      [&](const Tensor& x) { index_put_(x, {rows}, values.to(f64)); },
      [&](const Tensor& x) { scatter_(x, 0, rows.unsqueeze(1).expand({3000, 5}), values); },
      [&](const Tensor& x) { scatter_add_(x, 0, rows.unsqueeze(1).expand({3000, 5}), values); },
      [&](const Tensor& x) { cumsum_(x.t(), 1); },
      [&](const Tensor& x) { x.copy_(values.slice(0, 1, 41).to(cpu)); },
  };
  for (std::size_t i = 0; i < std::size(works); ++i) {
    INFO(i);
    const Tensor x = device_counting({40, 5});
    const std::vector<double> before = x.to_vector<double>();
    for (int n = 1; n < 100; ++n) {
      allocator_for(kDevice).fail_nth(n);
      try {
        works[i](x);
        allocator_for(kDevice).fail_nth(0);
        break;
      } catch (const OutOfMemory&) {
        REQUIRE(x.to_vector<double>() == before);
      }
    }
    CHECK(x.to_vector<double>() != before);
  }
}

TEST_CASE("creating a tensor on a missing device names that device", "[gpu]") {
  NEED_DEVICE();
  const Device absent{DeviceKind::cuda, 63};
  const std::string text = "cuda:63";
  CHECK_THROWS_WITH_AS_TEXT(Device::parse("cuda:63"), DeviceError, text);
  CHECK_THROWS_WITH_AS_TEXT(ones({2}).to(absent), DeviceError, text);
  CHECK_THROWS_WITH_AS_TEXT(ones({2}, {.device = kDevice}).to(absent), DeviceError, text);
  CHECK_THROWS_WITH_AS_TEXT(empty({2}, {.device = absent}), DeviceError, text);
  CHECK_THROWS_WITH_AS_TEXT(zeros({2}, {.device = absent}), DeviceError, text);
  CHECK_THROWS_WITH_AS_TEXT(rand({2}, {.device = absent}), DeviceError, text);
  CHECK_THROWS_WITH_AS_TEXT(arange(3, {.device = absent}), DeviceError, text);
  CHECK_THROWS_WITH_AS_TEXT((nn::Linear{2, 2}.to(absent)), DeviceError, text);
  CHECK(zeros({2}, {.device = kDevice}).to_vector<int>() == std::vector<int>{0, 0});
}

TEST_CASE("in-place ops, gradients and optimizers reject a second device", "[gpu]") {
  NEED_DEVICE();
  const Tensor here = ones({2, 3}), there = here.to(kDevice);
  const std::string both = "f32[2,3]@cuda:0 and f32[2,3]@cpu";
  CHECK_THROWS_WITH_AS_TEXT(add_(there, here), DeviceError, both);
  CHECK_THROWS_WITH_AS_TEXT(add_(here, there), DeviceError, "f32[2,3]@cpu and f32[2,3]@cuda:0");
  CHECK_THROWS_WITH_AS_TEXT(cat({there, here}), DeviceError, both);
  CHECK_THROWS_WITH_AS_TEXT(where(there > 0, there, here), DeviceError, "f32[2,3]@cpu");
  CHECK_THROWS_WITH_AS_TEXT(index_select(there, 0, zeros({1}, {.dtype = i64})), DeviceError,
                            "i64[1]@cpu");
  const Tensor number = full({}, 2), far_number = number.to(kDevice);
  CHECK_THROWS_WITH_AS_TEXT(add_(number, far_number), DeviceError, "f32[]@cpu and f32[]@cuda:0");
  CHECK(number.item<int>() == 2);
  const Tensor leaf = there.clone().requires_grad_();
  const std::string other = "f32[2,3]@cpu for f32[2,3]@cuda:0";
  CHECK_THROWS_WITH_AS_TEXT((leaf * 2).backward(here), DeviceError, other);
  CHECK_THROWS_WITH_AS_TEXT(leaf.set_grad(here), DeviceError, other);
  const Tensor hooked = there.clone().requires_grad_();
  register_hook(hooked, [](const Tensor& g) { return g.to(cpu); });
  CHECK_THROWS_WITH_AS_TEXT((hooked * 2).backward(there), DeviceError, "hook: the hook returned");
  CHECK(there.to_vector<int>() == std::vector<int>(6, 1));
}

TEST_CASE("device errors name the function that was called, not an inner op", "[gpu]") {
  NEED_DEVICE();
  const Tensor x = rand({4, 6}).to(kDevice), other = rand({4, 6}),
               classes = zeros({4}, {.dtype = i64});
  const auto check = [](const char* name, const std::function<void()>& call) {
    CHECK_THROWS_WITH_AS_TEXT((call(), 0), DeviceError,
                              str(name, ": operands are on different devices"));
  };
  check("cross_entropy", [&] { cross_entropy(x, classes); });
  check("mse_loss", [&] { mse_loss(x, other); });
  check("nll_loss", [&] { nll_loss(x, classes); });
  check("index", [&] { index(x, {classes}); });
  check("index_put_", [&] { index_put_(x, {classes}, x); });
  check("masked_select", [&] { masked_select(x, other > 0.5); });
  check("stack", [&] { stack({x, other}); });
  check("einsum", [&] { einsum("ij,kj->ik", {x, other}); });
  check("equal", [&] { equal(x, other); });
  check("mlp", [&] { mlp(x, {rand({3, 6}).to(kDevice), rand({2, 3})}); });
  check("lstm", [&] { (void)nn::LSTM{6, 2}(rand({3, 2, 6}).to(kDevice)); });
  check("add", [&] { x + other; });
}
