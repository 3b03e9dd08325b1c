// Pinned memory and asynchronous copies, on a device that delays its work as long as possible.
#include <mezzo.h>

#include <chrono>
#include <functional>
#include <thread>

#include "../../tensor/memory/transfer.h"
#include "../emulator/memory.h"
#include "../emulator/streams.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "../support/values.h"
#include "cost.h"
#include "device.h"

using namespace mezzo;
using emulator::LateWork;
using testing::kAsync;
using testing::kDevice;
using testing::kPinned;
using testing::values;

namespace {

/** Completes all work, so that freed blocks are all in the cache. */
void settle() {
  gpu::synchronize(kDevice);
  empty({1}, kPinned);
}

}  // namespace

TEST_CASE(
    "copies from pinned memory do not synchronise, and the block is reused only after the copy",
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
  CHECK(values(y) == expected);  // synchronises
  CHECK(full({300}, -1, kPinned).raw_data() == block);
}

TEST_CASE("a view's copy keeps the whole block in use, in each stream that reads it",
          "[gpu][pinned]") {
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

TEST_CASE("copies to pinned memory do not synchronise", "[gpu][pinned]") {
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
  CHECK(values(kept) == std::vector<double>(300, -1));  // the copy is still pending
  gpu::synchronize(kDevice);
  CHECK(values(x) == expected);
  CHECK(values(kept) == expected);

  x = y.to(cpu, kAsync);
  const void* block = x.raw_data();
  x = {};
  const Tensor other = full({300}, -2, kPinned);  // must not reuse the pending block
  CHECK(other.raw_data() != block);
  gpu::synchronize(kDevice);
  CHECK(values(other) == std::vector<double>(300, -2));
}

TEST_CASE("pinned blocks are cached: steps after the first allocate none",
          "[gpu][pinned][counters]") {
  const auto step = [] {
    const Tensor there = full({1000}, 3, kPinned).to(kDevice, kAsync);
    const std::unique_ptr<AsyncRead> back = read_later(there, 4000);
    gpu::synchronize(kDevice);
    CHECK(back->arrived());
    CHECK(static_cast<const float*>(back->data())[999] == 3);
  };
  step();
  CHECK(cost_of(step).allocations == 0);
  CHECK(cost_of([] { full({1000}, 3, kPinned).to(kDevice, kAsync); }).synchronisations == 0);
}

TEST_CASE(
    "a small copy from pageable memory does not synchronise; without pinned memory it still works",
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

TEST_CASE("the destination of an asynchronous read may be freed early", "[gpu][pinned]") {
  const Tensor y = rand({300}, {.device = kDevice});
  const LateWork late;
  const void* block = nullptr;
  {
    const std::unique_ptr<AsyncRead> back = read_later(y, 1200);
    CHECK(!back->arrived());
    block = back->data();
  }
  const Tensor other = full({300}, -2, kPinned);
  CHECK(other.raw_data() != block);
  gpu::synchronize(kDevice);
  CHECK(values(other) == std::vector<double>(300, -2));
}

TEST_CASE("running out of pinned memory throws OutOfMemory and is recoverable",
          "[gpu][pinned][memory]") {
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
  CHECK(full({24000}, 2, kPinned)[23999].item<int>() == 2);  // in released cache memory
  {
    const LateWork late;  // or of blocks still being read, after synchronising
    const Tensor y = full({20000}, 5, kPinned).to(kDevice, kAsync);
    CHECK(full({24000}, 2, kPinned)[23999].item<int>() == 2);
    CHECK(y[19999].item<int>() == 5);
  }
  emulator::set_pinned_size(std::size_t{16} << 30);
  CHECK(full({40000}, 2, kPinned)[39999].item<int>() == 2);
}

TEST_CASE("batches are gathered in pinned memory", "[gpu][pinned]") {
  const data::Dataset set(rand({50, 6}), arange(50.0));
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

TEST_CASE("batches prefetched by another thread stay out of a concurrent capture",
          "[gpu][pinned][graph]") {
  const auto cost_of_replay = [](bool loads) {
    data::Batches batches =
        data::Dataset(rand({64, 6}), arange(64.0))
            .batches({.size = 4, .prefetch = 3, .device = kDevice, .pin_memory = true});
    auto batch = batches.begin();
    gpu::CapturedStep step(
        [&](const std::vector<Tensor>& in) {
          if (loads)
            std::this_thread::sleep_for(
                std::chrono::milliseconds(20));  // gives the prefetching thread time
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

TEST_CASE("a captured step copies pinned inputs without synchronising where possible",
          "[gpu][pinned][graph]") {
  for (const bool non_blocking : {false, true}) {
    INFO(non_blocking);
    gpu::CapturedStep step(
        [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 2}; },
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
