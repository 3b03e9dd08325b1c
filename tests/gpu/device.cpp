// Tensors on a CUDA device, real or emulated: moves, reads, mixing with CPU tensors, running out of
// memory.
#include <mezzo.h>

#include <sstream>

#include "../support/catch.h"
#include "../support/throws.h"
#include "../support/values.h"
#include "device.h"
#include "need_device.h"

using namespace mezzo;
using testing::counting;
using testing::kDevice;

TEST_CASE("the device is found and named by its index", "[gpu]") {
  NEED_DEVICE();
  CHECK(Device::best() == kDevice);
  CHECK(Device::parse("cuda") == kDevice);
  CHECK(Device::parse("cuda:0") == kDevice);
  CHECK(str(kDevice) == "cuda:0");
  CHECK_THROWS_WITH_AS_TEXT(Device::parse("cuda:99"), DeviceError, "no such CUDA device");
  CHECK_THROWS_WITH_AS_TEXT(Device::parse("cuda:-1"), ValueError, "unknown device");
  CHECK_THROWS_WITH_AS_TEXT(Device::parse("cuda:x"), ValueError, "unknown device");
  CHECK_THROWS_WITH_AS_TEXT(ones({2}).to({DeviceKind::cuda, 99}), DeviceError, "no such device");
}

TEST_CASE("the device describes itself and its libraries", "[gpu][describe]") {
  NEED_DEVICE();
  const std::string text = description(kDevice);
  CHECK(text.find("GiB") != std::string::npos);
  CHECK_THROWS_WITH_AS_TEXT(description({DeviceKind::cuda, 99}), DeviceError,
                            "no such CUDA device");
}

TEST_CASE("tensors round-trip to the device in every dtype and layout", "[gpu]") {
  NEED_DEVICE();
  for (const DType dtype : {boolean, u8, i32, i64, f16, bf16, f32, f64}) {
    INFO(name(dtype));
    const Tensor x = counting({3, 4}).to(dtype);
    const Tensor y = x.to(kDevice);
    CHECK(y.device() == kDevice);
    CHECK(y.dtype() == dtype);
    CHECK(y.to_vector<double>() == x.to_vector<double>());
    CHECK(x.t().to(kDevice).to_vector<double>() == x.t().to_vector<double>());
    CHECK(y.t().to(cpu).to_vector<double>() == x.t().to_vector<double>());
    CHECK(y.slice(1, 1, 4, 2).contiguous().to_vector<double>() ==
          x.slice(1, 1, 4, 2).to_vector<double>());
    CHECK(y.to(kDevice).is_same(y));
  }
  CHECK(zeros({0, 3}).to(kDevice).to(cpu).numel() == 0);
}

TEST_CASE("items and printing read the device", "[gpu]") {
  NEED_DEVICE();
  CHECK(full({}, 2.5, {.device = kDevice}).item<float>() == 2.5f);
  std::ostringstream text;
  text << counting({2, 2}).to(kDevice);
  CHECK(text.str() == "[[0. 1.]\n [2. 3.]] f32[2,2]@cuda:0");
}

TEST_CASE("copy_ crosses devices and converts", "[gpu]") {
  NEED_DEVICE();
  const Tensor x = zeros({2, 3}, {.dtype = f16, .device = kDevice});
  x.copy_(counting({3}));
  CHECK(x.to_vector<int>() == std::vector<int>{0, 1, 2, 0, 1, 2});
  const Tensor y = zeros({2, 3}, {.dtype = i32});
  y.t().copy_(counting({3, 2}).to(kDevice));
  CHECK(y.to_vector<int>() == std::vector<int>{0, 2, 4, 1, 3, 5});
}

TEST_CASE("numbers and 0-dim CPU tensors mix with any device, other CPU tensors do not", "[gpu]") {
  NEED_DEVICE();
  const Tensor x = counting({3}).to(kDevice);
  CHECK((x * 2 + tensor(0.5)).to_vector<double>() == std::vector<double>{0.5, 2.5, 4.5});
  CHECK((x > 1).to_vector<int>() == std::vector<int>{0, 0, 1});
  const Tensor factor = tensor(3.0, {.requires_grad = true});
  const Tensor leaf = counting({3}).to(kDevice).requires_grad_();
  CHECK_THROWS_WITH_AS_TEXT(x + counting({3}), DeviceError, "f32[3]@cuda:0 and f32[3]@cpu");
  (leaf * factor).backward(ones_like(leaf));
  CHECK(leaf.grad().device() == kDevice);
  CHECK(leaf.grad().to_vector<double>() == std::vector<double>{3, 3, 3});
  CHECK(factor.grad().device() == cpu);
  CHECK(factor.grad().item<double>() == 3);
}

TEST_CASE("gradients cross devices", "[gpu]") {
  NEED_DEVICE();
  const Tensor x = counting({4}).requires_grad_();
  const Tensor y = (x.to(kDevice) * x.to(kDevice)).to(cpu);
  y.backward(ones({4}));
  CHECK(x.grad().device() == cpu);
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 2, 4, 6});
}

TEST_CASE("moving a model with a session moves optimizer states and masters too", "[gpu]") {
  NEED_DEVICE();
  for (const std::string level : {"O0", "O1", "O2"}) {
    INFO(level);
    manual_seed(1);
    const Tensor x = counting({4, 6}) * 0.1;
    const nn::Linear layer{6, 2};
    optim::Adam optimizer(layer.parameters(), {.lr = 0.001});
    auto session = amp::initialize(layer, optimizer,
                                   {.opt_level = level, .loss_scale = 256.0, .verbosity = 0});
    double last = 1e9;
    for (const Device device : {cpu, kDevice, cpu}) {
      layer.to(device);
      for (int i = 0; i < 3; ++i) {
        optimizer.zero_grad();
        const Tensor y = layer(x.to(device)), loss = mean(y * y);
        amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
        CHECK(optimizer.step() == optim::StepResult::stepped);
        CHECK(loss.item<double>() < last);
        last = loss.item<double>();
      }
    }
  }
}

TEST_CASE("an op without a CUDA kernel is reported", "[gpu]") {
  NEED_DEVICE();
  OpInfo lonely = *find_op("abs");
  lonely.kernel[1] = nullptr;
  Tensor in[] = {ones({2, 2}, {.device = kDevice})}, out[1];
  CHECK_THROWS_WITH_AS_TEXT(run(lonely, in, out, nullptr), Unsupported,
                            "abs: no CUDA kernel in this build");
}

TEST_CASE("running out of device memory throws OutOfMemory and is recoverable", "[gpu]") {
  NEED_DEVICE();
  const MemoryStats before = memory_stats(kDevice);
  CHECK_THROWS_AS(empty({std::int64_t{1} << 42}, {.device = kDevice}), OutOfMemory);
  CHECK_THROWS_WITH_AS_TEXT(empty({std::int64_t{1} << 42}, {.device = kDevice}), OutOfMemory,
                            "cuda:0");
  allocator_for(kDevice).fail_nth(1);
  CHECK_THROWS_AS(ones({2}, {.device = kDevice}) + 1, OutOfMemory);
  CHECK(memory_stats(kDevice).total.current == before.total.current);
  CHECK((ones({2}, {.device = kDevice}) + 1).to_vector<int>() == std::vector<int>{2, 2});
}

TEST_CASE("device memory is counted by category and cached for reuse", "[gpu]") {
  NEED_DEVICE();
  empty_cache(kDevice);
  const MemoryStats before = memory_stats(kDevice);
  {
    const CategoryScope scope(MemoryCategory::weights);
    const Tensor x = empty({1000}, {.device = kDevice});
    CHECK(memory_stats(kDevice)[MemoryCategory::weights].current ==
          before[MemoryCategory::weights].current + 4000);
  }
  const MemoryStats cached = memory_stats(kDevice);
  CHECK(cached.cached > 0);
  const Tensor again = empty({1000}, {.device = kDevice});
  CHECK(memory_stats(kDevice).reserved == cached.reserved);
  empty_cache(kDevice);
  CHECK(memory_stats(kDevice).cached == 0);
}

TEST_CASE("a class out of range is reported at the next synchronisation", "[gpu]") {
  NEED_DEVICE();
  const Tensor scores = zeros({2, 2, 3}, {.device = kDevice, .requires_grad = true});
  const Tensor good = zeros({2, 3}, {.dtype = i64, .device = kDevice});
  const Tensor bad = tensor({0, 1, 0, 1, 7, -3}, {2, 3}, {.dtype = i64, .device = kDevice});
  const std::string text =
      "cross_entropy: class out of range; got 7 at target[1,1], expected 0..1, or ignore_index "
      "-100";
  const Tensor loss = cross_entropy(scores, bad);
  loss.backward();
  CHECK_THROWS_WITH_AS_TEXT(loss.item<float>(), IndexError, text);
  CHECK_THROWS_WITH_AS_TEXT(cross_entropy(scores.detach().to(cpu), bad.to(cpu)), IndexError, text);
  CHECK(cross_entropy(scores, good).item<float>() > 0);
  for (int n = 1; n < 70; ++n)  // more ranges than can be pending at once
    cross_entropy(zeros({1, n}, {.device = kDevice}),
                  zeros({1}, {.dtype = i64, .device = kDevice}));
  CHECK(cross_entropy(scores, good).item<float>() > 0);
  const Tensor named = tensor({2, -1, 0, 0, 1, 3}, {2, 3}, {.dtype = i64, .device = kDevice});
  CHECK_THROWS_WITH_AS_TEXT(
      multilabel_margin_loss(zeros({2, 3}, {.device = kDevice}), named).item<float>(), IndexError,
      "multilabel_margin_loss: class out of range; got 3 at target[1,2], expected 0..2");
}

TEST_CASE("a module moves with its gradients", "[gpu]") {
  NEED_DEVICE();
  nn::Linear layer{3, 2};
  layer.weight().set_grad(ones({2, 3}));
  layer.to(kDevice);
  CHECK(layer.weight().device() == kDevice);
  CHECK(layer.weight().grad().device() == kDevice);
  layer.to(cpu);
  CHECK(layer.weight().device() == cpu);
}
