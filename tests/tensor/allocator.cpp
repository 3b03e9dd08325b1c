// The caching allocator: size classes, reuse, accounting by category, failure and recovery,
// threads.
#include "../../tensor/memory/allocator.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../tensor/core/error.h"
#include "../../tensor/memory/caching_allocator.h"
#include "../support/catch.h"

using namespace mezzo;

namespace {

using Category = MemoryCategory;

/** A caching allocator over at most `limit` bytes that counts the bytes in use. */
class LimitedAllocator final : public CachingAllocator {
 public:
  explicit LimitedAllocator(std::int64_t limit, const Queues* queues = nullptr)
      : CachingAllocator(queues ? kDevice : cpu, queues), limit_(limit) {}
  ~LimitedAllocator() override { release_cache(); }

  static constexpr Device kDevice{DeviceKind::cuda, 0};
  std::int64_t out = 0;
  int system_calls = 0;
  DeviceQueue home = nullptr;

 private:
  DeviceQueue home_queue() const override { return home; }
  void* system_allocate(std::size_t bytes) override {
    ++system_calls;
    if (out + static_cast<std::int64_t>(bytes) > limit_) return nullptr;
    out += static_cast<std::int64_t>(bytes);
    return std::aligned_alloc(64, bytes);
  }
  void system_free(void* block, std::size_t bytes) noexcept override {
    out -= static_cast<std::int64_t>(bytes);
    std::free(block);
  }
  SystemMemory system_memory() const override { return {limit_ - out, limit_}; }

  std::int64_t limit_;
};

/** Queues whose progress the test controls. */
class ManualQueues final : public Queues {
 public:
  struct Point {
    DeviceQueue queue = nullptr;
    int place = 0;
  };

  mutable std::map<DeviceQueue, int> length, done;
  mutable std::set<Point*> points;
  DeviceQueue recorded = this;  // no queue
  bool is_broken = false;

  bool is_past(const Point& point) const { return point.place <= done[point.queue]; }

  QueueMark make_mark(Device, bool) const override { return *points.insert(new Point).first; }
  void drop_mark(QueueMark mark) const noexcept override {
    points.erase(static_cast<Point*>(mark));
    delete static_cast<Point*>(mark);
  }
  void place(QueueMark mark, Device, DeviceQueue queue) const override {
    if (is_broken) throw CudaError("broken");
    *static_cast<Point*>(mark) = {queue, ++length[queue]};
  }
  bool reached(QueueMark mark) const override { return is_past(*static_cast<Point*>(mark)); }
  void wait_for(QueueMark mark) const override {
    const Point& point = *static_cast<Point*>(mark);
    done[point.queue] = std::max(done[point.queue], point.place);
  }
  bool is_recorded(Device, DeviceQueue queue) const override { return queue == recorded; }

  // Not used by an allocator:
  DeviceQueue current(Device) const override { return nullptr; }
  void set_current(Device, DeviceQueue) const noexcept override {}
  DeviceQueue next_side(Device, bool) const override { return nullptr; }
  void* handle(Device, DeviceQueue) const override { return nullptr; }
  bool is_idle(Device, DeviceQueue) const override { return true; }
  void synchronize(Device, DeviceQueue) const override {}
  void synchronize(Device) const override {}
  void hold(Device, DeviceQueue, QueueMark) const override {}
  float between(QueueMark, QueueMark) const override { return 0; }
};

/** Returns the number-th queue. */
DeviceQueue queue(std::size_t number) {
  static char names[8];
  return number == 0 ? nullptr : &names[number];
}

}  // namespace

TEST_CASE("size classes are tight, aligned and ordered", "[allocator]") {
  std::size_t previous = 0;
  for (std::size_t i = 0; i < detail::kSizeClasses; ++i) {
    const std::size_t bytes = detail::class_bytes(i);
    CHECK(bytes > previous);
    CHECK(bytes % 64 == 0);
    CHECK(detail::size_class(bytes) == i);
    CHECK(detail::size_class(previous + 1) == i);
    CHECK(
        (previous < 1024 || static_cast<double>(bytes) <= static_cast<double>(previous) * 1.0626));
    previous = bytes;
  }
  CHECK(previous == detail::kLargestBlock);
  CHECK(detail::size_class(0) == 0);
}

TEST_CASE("blocks are aligned, writable and reused within their class", "[allocator]") {
  Allocator& allocator = allocator_for(cpu);
  for (const std::size_t bytes : {0u, 1u, 64u, 65u, 1000u, 5000u, 1u << 20, (5u << 20) + 3}) {
    void* block = allocator.allocate(bytes, Category::other);
    REQUIRE(block != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
    std::memset(block, 0xAB, bytes);
    allocator.deallocate(block, bytes, Category::other);
    void* again = allocator.allocate(bytes, Category::other);
    CHECK(again == block);
    allocator.deallocate(again, bytes, Category::other);
  }
  allocator.deallocate(nullptr, 100, Category::other);
}

TEST_CASE("memory is counted by category: current, peak and number of allocations", "[allocator]") {
  LimitedAllocator allocator(1 << 20);
  void* a = allocator.allocate(1000, Category::weights);
  void* b = allocator.allocate(100, Category::gradients);
  void* c = allocator.allocate(50, Category::gradients);
  allocator.deallocate(b, 100, Category::gradients);
  MemoryStats stats = allocator.stats();
  CHECK(stats[Category::weights].current == 1000);
  CHECK(stats[Category::gradients].current == 50);
  CHECK(stats[Category::gradients].peak == 150);
  CHECK(stats[Category::gradients].allocations == 2);
  CHECK(stats.total.current == 1050);
  CHECK(stats.total.peak == 1150);
  CHECK(stats.total.allocations == 3);
  CHECK(stats.cached == 128);
  CHECK(stats.reserved == 1024 + 128 + 64);
  CHECK(stats.reserved == allocator.out);

  allocator.recategorise(50, Category::gradients, Category::masters);
  allocator.reset_peak();
  stats = allocator.stats();
  CHECK(stats[Category::gradients].peak == 0);
  CHECK(stats[Category::masters].current == 50);
  CHECK(stats[Category::masters].peak == 50);
  CHECK(stats.total.peak == 1050);

  allocator.deallocate(a, 1000, Category::weights);
  allocator.deallocate(c, 50, Category::masters);
  CHECK(allocator.stats().total.current == 0);
  CHECK(allocator.stats()[Category::masters].current == 0);
  allocator.empty_cache();
  CHECK(allocator.stats().cached == 0);
  CHECK(allocator.stats().reserved == 0);
  CHECK(allocator.out == 0);
}

TEST_CASE("category scopes nest and are per thread", "[allocator]") {
  CHECK(current_category() == Category::activations);
  {
    const CategoryScope weights(Category::weights);
    CHECK(current_category() == Category::weights);
    {
      const CategoryScope masters(Category::masters);
      CHECK(current_category() == Category::masters);
    }
    Category elsewhere{};
    std::thread([&] { elsewhere = current_category(); }).join();
    CHECK(elsewhere == Category::activations);
    CHECK(current_category() == Category::weights);
  }
  CHECK(current_category() == Category::activations);
}

TEST_CASE("on a full device the cache is released and the allocation retried", "[allocator]") {
  LimitedAllocator allocator(64 * 1024);
  void* small = allocator.allocate(40 * 1024, Category::activations);
  allocator.deallocate(small, 40 * 1024, Category::activations);
  allocator.system_calls = 0;
  void* large =
      allocator.allocate(60 * 1024, Category::activations);  // fits only without the cached block
  CHECK(allocator.system_calls == 2);
  CHECK(allocator.stats().cached == 0);
  allocator.deallocate(large, 60 * 1024, Category::activations);
}

TEST_CASE("OutOfMemory reports the request and the use by category; the allocator stays usable",
          "[allocator]") {
  LimitedAllocator allocator(64 * 1024);
  void* held = allocator.allocate(32 * 1024, Category::weights);
  void* more = allocator.allocate(512, Category::optimizer_state);
  const MemoryStats before = allocator.stats();
  std::string text;
  try {
    allocator.allocate(48 * 1024, Category::activations);
  } catch (const OutOfMemory& error) {
    text = error.what();
  }
  CHECK(text ==
        "allocate: out of memory on cpu; got a request for 48.0 KiB (49152 bytes), expected at "
        "most the 31.5 "
        "KiB (32256 bytes) free of "
        "64.0 KiB (65536 bytes); in use: weights 32.0 KiB (32768 bytes), optimizer state 512 "
        "bytes; largest "
        "blocks: 32.0 KiB (32768 "
        "bytes), 512 bytes; a smaller batch needs less");
  CHECK_THROWS_AS(allocator.allocate(~std::size_t{0}, Category::activations), OutOfMemory);
  const MemoryStats after = allocator.stats();
  CHECK(after.total.current == before.total.current);
  CHECK(after.total.peak == before.total.peak);
  CHECK(after.total.allocations == before.total.allocations);
  allocator.deallocate(held, 32 * 1024, Category::weights);
  held = allocator.allocate(48 * 1024, Category::activations);
  allocator.deallocate(held, 48 * 1024, Category::activations);
  allocator.deallocate(more, 512, Category::optimizer_state);
}

TEST_CASE("the n-th allocation fails on request, once", "[allocator]") {
  LimitedAllocator allocator(1 << 20);
  allocator.fail_nth(3);
  std::vector<void*> blocks;
  std::vector<int> failed;
  for (int i = 1; i <= 5; ++i) {
    try {
      blocks.push_back(allocator.allocate(100, Category::other));
    } catch (const OutOfMemory&) {
      failed.push_back(i);
    }
  }
  CHECK(failed == std::vector{3});
  allocator.fail_nth(1);
  allocator.fail_nth(0);
  blocks.push_back(allocator.allocate(100, Category::other));
  for (void* block : blocks) allocator.deallocate(block, 100, Category::other);
  CHECK(allocator.stats().total.current == 0);
}

TEST_CASE("an absent device has no allocator", "[allocator]") {
  CHECK_THROWS_AS(memory_stats({DeviceKind::cuda, 127}), DeviceError);
  LimitedAllocator stand_in(1 << 16);
  const Device device{DeviceKind::cuda, 126};
  set_allocator(device, &stand_in);
  CHECK(&allocator_for(device) == &stand_in);
  set_allocator(device, nullptr);
  CHECK_THROWS_AS(allocator_for(device), DeviceError);
}

TEST_CASE("threads may free each other's blocks", "[allocator]") {
  LimitedAllocator allocator(std::int64_t{1} << 30);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&allocator, t] {
      std::mt19937 random(t);
      std::vector<std::pair<unsigned char*, std::size_t>> blocks;
      for (int i = 0; i < 3000; ++i) {
        const std::size_t bytes = random() % 5000 + 1;
        auto* block = static_cast<unsigned char*>(allocator.allocate(bytes, Category::workspace));
        block[0] = block[bytes - 1] = static_cast<unsigned char>(t);
        blocks.emplace_back(block, bytes);
        if (blocks.size() > 20) {
          std::swap(blocks[random() % blocks.size()], blocks.back());
          const auto [old, size] = blocks.back();
          if (old[0] != t || old[size - 1] != t) std::terminate();  // the block was allocated twice
          allocator.deallocate(old, size, Category::workspace);
          blocks.pop_back();
        }
      }
      for (const auto& [block, bytes] : blocks)
        allocator.deallocate(block, bytes, Category::workspace);
    });
  }
  for (auto& thread : threads) thread.join();
  const MemoryStats stats = allocator.stats();
  CHECK(stats.total.current == 0);
  CHECK(stats.total.allocations == 12000);
  CHECK(stats.reserved == stats.cached);
}

TEST_CASE("malloc is tuned on request", "[allocator]") {
  tune_malloc();
  SUCCEED();
}

TEST_CASE("a block is reused in its own queue, after the other queues that used it",
          "[allocator][queues]") {
  ManualQueues queues;
  LimitedAllocator memory(1 << 20, &queues);
  const Device device = LimitedAllocator::kDevice;
  const auto get = [&] { return memory.allocate(1000, Category::other); };
  const auto give = [&](void* block) { memory.deallocate(block, 1000, Category::other); };
  void* of_main = get();
  memory.home = queue(1);
  give(of_main);
  void* of_side = get();
  CHECK(of_side != of_main);
  give(of_side);
  memory.home = nullptr;
  CHECK(get() == of_main);

  memory.record_use(of_main, device, queue(2));
  memory.record_use(of_main, device, queue(1));
  memory.record_use(of_main, device, queue(2));
  give(of_main);
  CHECK(queues.points.size() == 2);  // one per queue
  void* other = get();
  CHECK(other != of_main);
  queues.done[queue(2)] = 1;
  void* third = get();
  CHECK(third != of_main);
  queues.done[queue(1)] = 1;
  CHECK(get() == of_main);
  CHECK(queues.points.empty());
  for (void* block : {other, third, of_main}) give(block);
  CHECK(get() == of_main);  // its recorded uses are cleared
  give(of_main);
  CHECK(memory.stats().total.current == 0);
  memory.empty_cache();
  CHECK(memory.out == 0);
}

TEST_CASE("a block used by a recorded or broken queue is not reused until the queue is usable",
          "[allocator][queues]") {
  ManualQueues queues;
  LimitedAllocator memory(4096, &queues);
  const Device device = LimitedAllocator::kDevice;
  for (const bool broken : {false, true}) {
    void* block = memory.allocate(1000, Category::other);
    memory.record_use(block, device, queue(1));
    queues.is_broken = broken;
    if (!broken) queues.recorded = queue(1);
    memory.deallocate(block, 1000, Category::other);
    CHECK(queues.points.empty());
    void* other = memory.allocate(1000, Category::other);
    CHECK(other != block);
    CHECK_THROWS_AS(memory.allocate(3000, Category::other), OutOfMemory);
    queues.recorded = &queues;
    queues.is_broken = false;
    void* large =
        memory.allocate(3000, Category::other);  // waits for the mark and releases the block
    memory.deallocate(large, 3000, Category::other);
    memory.deallocate(other, 1000, Category::other);
    memory.empty_cache();
    CHECK(memory.out == 0);
    CHECK(queues.points.empty());
  }
}

TEST_CASE("random allocations, uses and progress never reuse a block too early",
          "[allocator][queues]") {
  struct HeldBlock {
    void* block;
    std::size_t bytes;
  };
  constexpr std::size_t kQueues = 4;
  for (unsigned seed = 0; seed < 20; ++seed) {
    INFO(seed);
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
    ManualQueues queues;
    LimitedAllocator memory(200000, &queues);
    std::vector<HeldBlock> held;
    std::map<void*, DeviceQueue> homes;
    std::map<void*, std::set<DeviceQueue>> uses;
    std::map<void*, std::vector<ManualQueues::Point>>
        pending;  // of freed blocks: the points that must be passed before reuse
    int reused = 0, refused = 0;
    for (int step = 0; step < 3000; ++step) {
      memory.home = queue(below(kQueues));
      const std::size_t what = below(10);
      if (what < 4) {
        const std::size_t bytes = 1000 + 900 * below(5);
        const int calls = memory.system_calls;
        void* block = nullptr;
        try {
          block = memory.allocate(bytes, Category::other);
        } catch (const OutOfMemory&) {
          ++refused;
          continue;
        }
        if (memory.system_calls == calls) {
          ++reused;
          REQUIRE(homes.at(block) == memory.home);
        }
        homes[block] = memory.home;
        for (const ManualQueues::Point& point : pending[block]) REQUIRE(queues.is_past(point));
        pending.erase(block);
        held.push_back({block, bytes});
      } else if (what < 7 && !held.empty()) {
        const std::size_t at = below(held.size());
        const HeldBlock gone = held[at];
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
        for (DeviceQueue q : uses[gone.block])
          pending[gone.block].push_back({q, queues.length[q] + 1});
        uses.erase(gone.block);
        memory.deallocate(gone.block, gone.bytes, Category::other);
      } else if (what < 9 && !held.empty()) {
        const HeldBlock& one = held[below(held.size())];
        const DeviceQueue q = queue(below(kQueues));
        memory.record_use(one.block, LimitedAllocator::kDevice, q);
        if (q != homes.at(one.block)) uses[one.block].insert(q);
      } else {
        const DeviceQueue q = queue(below(kQueues));
        queues.done[q] = std::min(queues.length[q], queues.done[q] + static_cast<int>(below(3)));
      }
    }
    CHECK(reused > 50);
    CHECK(refused > 0);
    for (const HeldBlock& one : held) memory.deallocate(one.block, one.bytes, Category::other);
    memory.empty_cache();
    CHECK(memory.out == 0);
    CHECK(queues.points.empty());
  }
}
