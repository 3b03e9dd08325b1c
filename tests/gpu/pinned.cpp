// Pinned memory and copies that nobody waits for, on a device that does its work as late as it may.
#include <mezzo.h>

#include <chrono>
#include <functional>
#include <thread>

#include "../../tensor/transfer.h"
#include "../emulator/memory.h"
#include "../emulator/streams.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "cost.h"

using namespace mezzo;
using emulator::LateWork;

namespace {

const Device kDevice{DeviceKind::cuda, 0};
constexpr CopyOptions kAsync{.non_blocking = true};
constexpr TensorOptions kPinned{.pin_memory = true};

std::vector<double> values(const Tensor& x) { return x.to_vector<double>(); }

/** Nothing is under way, and freed blocks are all in the cache. */
void settle() {
  gpu::synchronize(kDevice);
  empty({1}, kPinned);
}

}  // namespace

TEST_CASE("pinned memory holds every dtype and layout, and its views tell", "[gpu][pinned]") {
  for (const DType dtype : {boolean, u8, i32, i64, f16, bf16, f32, f64}) {
    INFO(name(dtype));
    const Tensor x = (rand({5, 7}) * 9).to(dtype);
    for (const Tensor& plain : {x, x.t(), x.slice(1, 1, 6, 2), x.expand({3, 5, 7}), x.slice(0, 0, 0)}) {
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

TEST_CASE("tensors are made in pinned memory where options say so", "[gpu][pinned]") {
  CHECK(values(zeros({3}, kPinned)) == std::vector<double>{0, 0, 0});
  CHECK(values(full({2}, 7, kPinned)) == std::vector<double>{7, 7});
  CHECK(values(arange(3, kPinned)) == std::vector<double>{0, 1, 2});
  CHECK(values(eye(2, kPinned)) == std::vector<double>{1, 0, 0, 1});
  CHECK(values(tensor({4, 5}, kPinned)) == std::vector<double>{4, 5});
  for (const Tensor& x : {empty({3}, kPinned), zeros({3}, kPinned), ones({3}, kPinned), arange(3, kPinned),
                          linspace(0, 1, 3, kPinned), eye(2, kPinned), rand({3}, kPinned),
                          tensor({1, 2}, {.dtype = i64, .pin_memory = true})})
    CHECK(x.is_pinned());
  CHECK(tensor({1}, {.requires_grad = true, .pin_memory = true}).requires_grad());
}

TEST_CASE("what cannot be pinned is refused", "[gpu][pinned]") {
  const std::string text = "pin_memory: memory of a device is not pinned";
  CHECK_THROWS_WITH_AS_TEXT(ones({2}).to(kDevice).pin_memory(), DeviceError, text);
  CHECK_THROWS_WITH_AS_TEXT(empty({2}, {.device = kDevice, .pin_memory = true}), DeviceError, text);
  CHECK_THROWS_WITH_AS_TEXT(tensor({2}, {.device = kDevice, .pin_memory = true}), DeviceError, text);
  CHECK_THROWS_WITH_AS_TEXT(Tensor().pin_memory(), ValueError, "undefined");
  CHECK_THROWS_WITH_AS_TEXT(Tensor().is_pinned(), ValueError, "undefined");
}

TEST_CASE("gradients pass through pinned memory and through copies nobody waits for", "[gpu][pinned]") {
  const Tensor x = rand({4, 3}).requires_grad_();
  const Tensor there = x.pin_memory().to(kDevice, kAsync);
  const Tensor over = zeros({4, 3}, {.device = kDevice});
  over.copy_(x * 2, kAsync);
  sum(there * there + over).backward();
  CHECK(values(x.grad()) == values(x * 2 + 2));
  CHECK(over.version() == 2);
}

TEST_CASE("the host does not wait for pinned memory, and its block serves nobody before it was read",
          "[gpu][pinned]") {
  Tensor x = rand({300}).pin_memory(), y;
  const std::vector<double> expected = values(x);
  const void* block = x.raw_data();
  const LateWork late;
  const emulator::Counters cost = cost_of([&] { y = x.to(kDevice, kAsync); });
  CHECK((cost.copies == 0 && cost.synchronisations == 0));
  x = {};
  const Tensor other = full({300}, -1, kPinned);
  CHECK(other.raw_data() != block);
  CHECK(values(y) == expected);  // waits
  CHECK(full({300}, -1, kPinned).raw_data() == block);
}

TEST_CASE("a view's copy keeps the whole block, in each stream that reads it", "[gpu][pinned]") {
  Tensor x = rand({300}).pin_memory();
  const void* block = x.raw_data();
  const std::vector<double> expected = values(x.slice(0, 100, 200));
  const LateWork late;
  const gpu::Stream side(kDevice);
  const Tensor first = x.slice(0, 100, 200).to(kDevice, kAsync);
  Tensor second;
  {
    const gpu::StreamScope scope(side);
    second = x.slice(0, 100, 200).to(kDevice, kAsync);
  }
  x = {};
  gpu::Stream::current(kDevice).synchronize();
  CHECK(full({300}, -1, kPinned).raw_data() != block);
  side.synchronize();
  CHECK(full({300}, -1, kPinned).raw_data() == block);
  CHECK(values(first) == expected);
  CHECK(values(second) == expected);
}

TEST_CASE("what is waited for may be overwritten at once, and so may memory that is not pinned",
          "[gpu][pinned]") {
  const LateWork late;
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

TEST_CASE("on the way to the host nothing is waited for in pinned memory", "[gpu][pinned]") {
  const Tensor y = rand({300}, {.device = kDevice});
  const std::vector<double> expected = values(y);
  const Tensor kept = full({300}, -1, kPinned);
  settle();
  const LateWork late;
  Tensor x;
  const emulator::Counters cost = cost_of([&] {
    x = y.to(cpu, kAsync);
    kept.copy_(y, kAsync);
  });
  CHECK((cost.copies == 0 && cost.synchronisations == 0 && cost.launches == 0));
  CHECK(x.is_pinned());
  CHECK(values(kept) == std::vector<double>(300, -1));  // not there yet
  gpu::synchronize(kDevice);
  CHECK(values(x) == expected);
  CHECK(values(kept) == expected);

  x = y.to(cpu, kAsync);
  const void* block = x.raw_data();
  x = {};
  const Tensor other = full({300}, -2, kPinned);  // not where the copy still goes to
  CHECK(other.raw_data() != block);
  gpu::synchronize(kDevice);
  CHECK(values(other) == std::vector<double>(300, -2));
}

TEST_CASE("copy_ waits where it has to", "[gpu][pinned]") {
  const LateWork late;
  const Tensor y = rand({20, 30}, {.device = kDevice});
  const std::vector<double> expected = values(y);
  for (const CopyOptions& options : {CopyOptions{}, kAsync}) {
    const Tensor plain = zeros({20, 30}), wide = zeros({20, 30}, {.dtype = f64, .pin_memory = true}),
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

TEST_CASE("pinned blocks are kept: steps after the first ask the driver for none",
          "[gpu][pinned][counters]") {
  const auto step = [] {
    const Tensor there = full({1000}, 3, kPinned).to(kDevice, kAsync);
    const std::unique_ptr<Readback> back = read_later(there, 4000);
    gpu::synchronize(kDevice);
    CHECK(back->arrived());
    CHECK(static_cast<const float*>(back->data())[999] == 3);
  };
  step();
  CHECK(cost_of(step).allocations == 0);
  CHECK(cost_of([] { full({1000}, 3, kPinned).to(kDevice, kAsync); }).synchronisations == 0);
}

TEST_CASE("a readback that nobody waits for may be dropped", "[gpu][pinned]") {
  const Tensor y = rand({300}, {.device = kDevice});
  const LateWork late;
  const void* block = nullptr;
  {
    const std::unique_ptr<Readback> back = read_later(y, 1200);
    CHECK(!back->arrived());
    block = back->data();
  }
  const Tensor other = full({300}, -2, kPinned);
  CHECK(other.raw_data() != block);
  gpu::synchronize(kDevice);
  CHECK(values(other) == std::vector<double>(300, -2));
}

TEST_CASE("out of pinned memory is an error of its own, and passes", "[gpu][pinned][memory]") {
  settle();
  Allocator& pinned = pinned_allocator();
  pinned.empty_cache();
  const MemoryStats before = pinned.stats();
  emulator::set_pinned_size(static_cast<std::size_t>(before.reserved) + 100000);
  CHECK_THROWS_WITH_AS_TEXT(empty({40000}, kPinned), OutOfMemory,
                            "allocate: out of memory on the CPU's pinned memory");
  CHECK(pinned.stats().total.current == before.total.current);
  { const Tensor cached = empty({20000}, kPinned); }
  CHECK(pinned.stats().cached > 0);
  CHECK(full({24000}, 2, kPinned)[23999].item<int>() == 2);  // in the room of what was cached
  {
    const LateWork late;  // or still being read: then it is waited for
    const Tensor y = full({20000}, 5, kPinned).to(kDevice, kAsync);
    CHECK(full({24000}, 2, kPinned)[23999].item<int>() == 2);
    CHECK(y[19999].item<int>() == 5);
  }
  emulator::set_pinned_size(std::size_t{16} << 30);
  CHECK(full({40000}, 2, kPinned)[39999].item<int>() == 2);
}

TEST_CASE("wherever pinned memory runs out, nothing is lost and the next call is right",
          "[gpu][pinned][memory]") {
  const data::Dataset set(rand({50, 6}), arange(50));
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
        const std::unique_ptr<Readback> back = read_later(y, 4);
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

TEST_CASE("a capture neither copies from pinned memory nor marks what is let go within", "[gpu][pinned]") {
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
    CHECK(empty({300}, kPinned).raw_data() != block);  // nobody can tell whether the copy is done
  });
  graph.replay();
  gpu::synchronize(kDevice);
  CHECK(z[299].item<int>() == 4);
  CHECK(empty({300}, kPinned).raw_data() == block);
}

TEST_CASE("batches are gathered in pinned memory", "[gpu][pinned]") {
  const data::Dataset set(rand({50, 6}), arange(50));
  std::vector<double> expected, pinned, moved;
  const data::BatchOptions plain{.size = 8, .seed = 3, .prefetch = 0};
  data::BatchOptions with_pin = plain, there = plain;
  with_pin.pin_memory = there.pin_memory = true;
  there.device = kDevice;
  const auto add = [](std::vector<double>& all, const Batch& batch) {
    for (const Tensor& x : {batch.x, batch.y})
      for (const double v : values(x)) all.push_back(v);
  };
  for (const Batch& batch : set.batches(plain)) {
    CHECK(!batch.x.is_pinned());
    add(expected, batch);
  }
  for (const Batch& batch : set.batches(with_pin)) {
    CHECK((batch.x.is_pinned() && batch.y.is_pinned()));
    add(pinned, batch);
  }
  std::vector<Batch> kept;
  {
    const LateWork late;
    const emulator::Counters cost = cost_of([&] {
      for (const Batch& batch : set.batches(there)) kept.push_back(batch);
    });
    CHECK(cost.synchronisations == 0);
  }
  for (const Batch& batch : kept) add(moved, batch);
  CHECK(pinned == expected);
  CHECK(moved == expected);
}

TEST_CASE("batches that a thread gathers ahead stay out of a step that is captured meanwhile",
          "[gpu][pinned][graph]") {
  const auto cost_of_replay = [](bool loads) {
    data::Batches batches = data::Dataset(rand({64, 6}), arange(64))
                                .batches({.size = 4, .prefetch = 3, .device = kDevice, .pin_memory = true});
    auto batch = batches.begin();
    gpu::CapturedStep step(
        [&](const std::vector<Tensor>& in) {
          if (loads) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // there is room for another
          return std::vector<Tensor>{in[0] * 2};
        },
        {.device = kDevice});
    const Tensor x = ones({5}, {.device = kDevice});
    for (int i = 0; i < 3; ++i) {
      if (loads) ++batch;
      step({x});
    }
    gpu::synchronize(kDevice);
    const emulator::Counters cost = cost_of([&] { step({x}); });
    return cost.launches + cost.copies;
  };
  CHECK(cost_of_replay(true) == cost_of_replay(false));
}

TEST_CASE("a captured step reads pinned inputs without a wait where it may", "[gpu][pinned][graph]") {
  for (const bool non_blocking : {false, true}) {
    INFO(non_blocking);
    gpu::CapturedStep step([](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 2}; },
                           {.device = kDevice, .non_blocking = non_blocking});
    const Tensor x = rand({300}).pin_memory();
    for (int i = 0; i < 3; ++i) step({x});
    const std::vector<double> expected = values(x * 2);
    settle();
    const LateWork late;
    std::vector<Tensor> y;
    CHECK(cost_of([&] { y = step({x}); }).synchronisations == (non_blocking ? 0 : 1));
    if (!non_blocking) x.fill_(-1);
    CHECK(values(y[0]) == expected);
  }
}
