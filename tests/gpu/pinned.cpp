// Pinned memory and asynchronous copies on any device; an emulated one delays work as long as
// possible.
#include <mezzo.h>

#include <functional>

#include "../../tensor/memory/transfer.h"
#include "../emulator/streams.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "../support/values.h"
#include "device.h"
#include "need_device.h"

using namespace mezzo;
using testing::kAsync;
using testing::kDevice;
using testing::kPinned;
using testing::values;

TEST_CASE("pinned memory supports every dtype and layout, and its views are pinned",
          "[gpu][pinned]") {
  NEED_DEVICE();
  for (const DType dtype : {boolean, u8, i32, i64, f16, bf16, f32, f64}) {
    INFO(name(dtype));
    const Tensor x = (rand({5, 7}) * 9).to(dtype);
    for (const Tensor& plain :
         {x, x.t(), x.slice(1, 1, 6, 2), x.expand({3, 5, 7}), x.slice(0, 0, 0)}) {
      const Tensor pinned = plain.pin_memory();
      CHECK(!plain.is_pinned());
      CHECK(pinned.is_pinned());
      CHECK(pinned.dtype() == dtype);
      CHECK(pinned.shape() == plain.shape());
      CHECK(pinned.is_contiguous());
      CHECK(pinned.device() == cpu);
      CHECK(values(pinned) == values(plain));
      CHECK(pinned.pin_memory().is_same(pinned));
      CHECK(pinned.flatten().is_pinned());
      CHECK(!pinned.clone().is_pinned());
    }
  }
  CHECK(tensor(2.5).pin_memory().item<double>() == 2.5);
}

TEST_CASE("tensors are created in pinned memory with pin_memory = true", "[gpu][pinned]") {
  NEED_DEVICE();
  CHECK(values(zeros({3}, kPinned)) == std::vector<double>{0, 0, 0});
  CHECK(values(full({2}, 7, kPinned)) == std::vector<double>{7, 7});
  CHECK(values(arange(3, kPinned)) == std::vector<double>{0, 1, 2});
  CHECK(values(eye(2, kPinned)) == std::vector<double>{1, 0, 0, 1});
  CHECK(values(tensor({4., 5}, kPinned)) == std::vector<double>{4, 5});
  for (const Tensor& x : {empty({3}, kPinned), zeros({3}, kPinned), ones({3}, kPinned),
                          arange(3, kPinned), linspace(0, 1, 3, kPinned), eye(2, kPinned),
                          rand({3}, kPinned), tensor({1, 2}, {.dtype = i64, .pin_memory = true})})
    CHECK(x.is_pinned());
  CHECK(tensor({1.}, {.requires_grad = true, .pin_memory = true}).requires_grad());
}

TEST_CASE("pin_memory rejects what cannot be pinned", "[gpu][pinned]") {
  NEED_DEVICE();
  const std::string text = "pin_memory: memory of a device is not pinned";
  CHECK_THROWS_WITH_AS_TEXT(ones({2}).to(kDevice).pin_memory(), DeviceError, text);
  CHECK_THROWS_WITH_AS_TEXT(empty({2}, {.device = kDevice, .pin_memory = true}), DeviceError, text);
  CHECK_THROWS_WITH_AS_TEXT(tensor({2.}, {.device = kDevice, .pin_memory = true}), DeviceError,
                            text);
  CHECK_THROWS_WITH_AS_TEXT(Tensor().pin_memory(), ValueError, "undefined");
  CHECK_THROWS_WITH_AS_TEXT(Tensor().is_pinned(), ValueError, "undefined");
}

TEST_CASE("gradients pass through pinned memory and asynchronous copies", "[gpu][pinned]") {
  NEED_DEVICE();
  const Tensor x = rand({4, 3}).requires_grad_();
  const Tensor there = x.pin_memory().to(kDevice, kAsync);
  const Tensor over = zeros({4, 3}, {.device = kDevice});
  over.copy_(x * 2, kAsync);
  sum(there * there + over).backward();
  CHECK(values(x.grad()) == values(x * 2 + 2));
  CHECK(over.version() == 2);
}

TEST_CASE("sources of synchronous copies and pageable memory may be overwritten at once",
          "[gpu][pinned]") {
  NEED_DEVICE();
  const emulator::LateWork late;
  for (const bool pinned : {false, true})
    for (const CopyOptions& options : {CopyOptions{}, kAsync}) {
      if (pinned && options.non_blocking) continue;
      INFO(pinned << options.non_blocking);
      const Tensor x = pinned ? rand({300}).pin_memory() : rand({300});
      const std::vector<double> expected = values(x);
      const Tensor y = x.to(kDevice, options), z = empty({300}, {.device = kDevice});
      z.copy_(x, options);
      x.fill_(-1);
      CHECK(values(y) == expected);
      CHECK(values(z) == expected);
    }
}

TEST_CASE("pageable memory of any size may be overwritten or freed when the copy returns",
          "[gpu][pinned]") {
  NEED_DEVICE();
  const emulator::LateWork late;
  for (const std::int64_t n : {1, 300, 262144, 262145, 600000}) {
    INFO(n);
    std::vector<float> source(static_cast<std::size_t>(n), 3);
    const Tensor x = empty({n}, {.device = kDevice}), y = empty({n}, {.device = kDevice});
    upload(x, source.data(), source.size() * sizeof(float));
    source.assign(source.size(), 4);
    upload(y, source.data(), source.size() * sizeof(float));
    source.clear();
    source.shrink_to_fit();
    const Tensor z = full({n}, 5).to(kDevice);
    CHECK(amin(x).item<float>() == 3);
    CHECK(amax(x).item<float>() == 3);
    CHECK(sum(y).item<float>() == 4.0f * static_cast<float>(n));
    CHECK(sum(z).item<float>() == 5.0f * static_cast<float>(n));
  }
}

TEST_CASE("copy_ synchronises where necessary", "[gpu][pinned]") {
  NEED_DEVICE();
  const emulator::LateWork late;
  const Tensor y = rand({20, 30}, {.device = kDevice});
  const std::vector<double> expected = values(y);
  for (const CopyOptions& options : {CopyOptions{}, kAsync}) {
    const Tensor plain = zeros({20, 30}),
                 wide = zeros({20, 30}, {.dtype = f64, .pin_memory = true}),
                 turned = zeros({30, 20}, kPinned), large = zeros({2, 20, 30}, kPinned);
    plain.copy_(y, options);
    wide.copy_(y, options);
    turned.t().copy_(y, options);
    large.copy_(y, options);
    CHECK(values(plain) == expected);
    CHECK(values(wide) == expected);
    CHECK(values(turned.t()) == expected);
    CHECK(values(large.select(0, 1)) == expected);
    const Tensor there = zeros({2, 20, 30}, {.dtype = f16, .device = kDevice});
    const Tensor source = rand({20, 30}).pin_memory();
    const std::vector<double> rounded = values(source.to(f16));
    there.copy_(source, options);
    if (!options.non_blocking) source.fill_(-1);
    CHECK(values(there.select(0, 1)) == rounded);
  }
  CHECK_THROWS_WITH_AS_TEXT(zeros({3}, kPinned).copy_(y, kAsync), ShapeError, "does not broadcast");
}

TEST_CASE("wherever pinned memory runs out, nothing leaks and the next call succeeds",
          "[gpu][pinned][memory]") {
  NEED_DEVICE();
  const data::Dataset set(rand({50, 6}), arange(50.0));
  const Tensor x = rand({40, 50}), y = x.to(kDevice), target = empty({40, 50}, {.device = kDevice});
  const std::function<std::vector<double>()> works[] = {
      [&] { return values(x.t().pin_memory()); },
      [&] { return values(tensor(values(x), {.pin_memory = true})); },
      [&] {
        const Tensor back = y.to(cpu, kAsync);
        gpu::synchronize(kDevice);
        return values(back);
      },
      [&] { return values(target.copy_(x.pin_memory(), kAsync)); },
      [&] {
        std::vector<double> all;
        for (const Batch& batch :
             set.batches({.size = 7, .shuffle = false, .device = kDevice, .pin_memory = true}))
          for (const double v : values(batch.x)) all.push_back(v);
        return all;
      },
      [&] {
        const std::unique_ptr<AsyncRead> back = read_later(y, 4);
        gpu::synchronize(kDevice);
        return std::vector<double>{*static_cast<const float*>(back->data())};
      },
  };
  for (Allocator* allocator : {&pinned_allocator(), &allocator_for(kDevice)})
    for (std::size_t i = 0; i < std::size(works); ++i) {
      INFO(i);
      const std::vector<double> expected = works[i]();
      const std::int64_t before = allocator->stats().total.current;
      for (int n = 1; n < 100; ++n) {
        allocator->fail_nth(n);
        try {
          const std::vector<double> got = works[i]();
          CHECK(got == expected);
          CHECK((n > 1 || allocator != &pinned_allocator()));
          break;
        } catch (const OutOfMemory&) {
          CHECK(allocator->stats().total.current == before);
        }
      }
      allocator->fail_nth(0);
      CHECK(works[i]() == expected);
    }
}

TEST_CASE("a capture neither copies from pinned memory nor marks blocks freed within",
          "[gpu][pinned]") {
  NEED_DEVICE();
  Tensor x = rand({300}).pin_memory();
  const void* block = x.raw_data();
  const Tensor there = x.to(kDevice, kAsync), z = zeros({300}, {.device = kDevice});
  gpu::Graph graph;
  CHECK_THROWS_WITH_AS_TEXT(graph.capture(kDevice, [&] { x.to(kDevice, kAsync); }), StateError,
                            "to: host memory is read while a step is being captured");
  CHECK_THROWS_WITH_AS_TEXT(graph.capture(kDevice, [&] { z.copy_(x, kAsync); }), StateError,
                            "copy_: host memory is read");
  CHECK_THROWS_WITH_AS_TEXT(graph.capture(kDevice, [&] { x.copy_(z, kAsync); }), StateError,
                            "copy_: the device is read");
  graph.capture(kDevice, [&] {
    z.fill_(4);
    x = {};
    CHECK(empty({300}, kPinned).raw_data() != block);  // completion of the copy is not known here
  });
  graph.replay();
  gpu::synchronize(kDevice);
  CHECK(z[299].item<int>() == 4);
  CHECK(empty({300}, kPinned).raw_data() == block);
}
