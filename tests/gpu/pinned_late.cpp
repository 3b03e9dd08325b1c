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

TEST_CASE("a small copy from pageable memory waits for nothing, nor does one without pinned memory fail",
          "[gpu][pinned][counters]") {
  const Tensor x = rand({300}), large = rand({600000});
  settle();
  {
    const LateWork late;
    Tensor y;
    CHECK(cost_of([&] { y = x.to(kDevice); }).synchronisations == 0);
    CHECK(cost_of([&] { large.to(kDevice); }).synchronisations == 1);
    CHECK(values(y) == values(x));
  }
  pinned_allocator().fail_nth(1);
  CHECK(values(x.to(kDevice)) == values(x));
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
