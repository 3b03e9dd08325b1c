// The caching allocator: size classes, reuse, the account by category, failure and recovery, threads.
#include "../../tensor/allocator.h"

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../../tensor/caching_allocator.h"
#include "../../tensor/error.h"
#include "../support/catch.h"

using namespace mezzo;

namespace {

using Category = MemoryCategory;

/** A source that gives at most `limit` bytes and counts what is out. */
class LimitedAllocator final : public CachingAllocator {
 public:
  explicit LimitedAllocator(std::int64_t limit) : CachingAllocator(cpu), limit_(limit) {}
  ~LimitedAllocator() override { release_cache(); }

  std::int64_t out = 0;
  int system_calls = 0;

 private:
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

}  // namespace

TEST_CASE("size classes are tight, aligned and ordered", "[allocator]") {
  std::size_t previous = 0;
  for (std::size_t i = 0; i < detail::kSizeClasses; ++i) {
    const std::size_t bytes = detail::class_bytes(i);
    CHECK(bytes > previous);
    CHECK(bytes % 64 == 0);
    CHECK(detail::size_class(bytes) == i);
    CHECK(detail::size_class(previous + 1) == i);
    CHECK((previous < 1024 || static_cast<double>(bytes) <= static_cast<double>(previous) * 1.0626));
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

TEST_CASE("memory is accounted by category, current, peak and count", "[allocator]") {
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

TEST_CASE("category scopes nest and belong to a thread", "[allocator]") {
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

TEST_CASE("a full device gives its cache back and tries once more", "[allocator]") {
  LimitedAllocator allocator(64 * 1024);
  void* small = allocator.allocate(40 * 1024, Category::activations);
  allocator.deallocate(small, 40 * 1024, Category::activations);
  allocator.system_calls = 0;
  void* large = allocator.allocate(60 * 1024, Category::activations);  // fits only without the cached block
  CHECK(allocator.system_calls == 2);
  CHECK(allocator.stats().cached == 0);
  allocator.deallocate(large, 60 * 1024, Category::activations);
}

TEST_CASE("out of memory says how much was asked for, who holds what, and leaves the allocator usable",
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
        "allocate: out of memory on cpu; got a request for 48.0 KiB (49152 bytes), expected at most the 31.5 "
        "KiB (32256 bytes) free of "
        "64.0 KiB (65536 bytes); in use: weights 32.0 KiB (32768 bytes), optimizer state 512 bytes; largest "
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

TEST_CASE("a device that is absent has no allocator", "[allocator]") {
  CHECK_THROWS_AS(memory_stats({DeviceKind::cuda, 127}), DeviceError);
  LimitedAllocator stand_in(1 << 16);
  const Device device{DeviceKind::cuda, 126};
  set_allocator(device, &stand_in);
  CHECK(&allocator_for(device) == &stand_in);
  set_allocator(device, nullptr);
  CHECK_THROWS_AS(allocator_for(device), DeviceError);
}

TEST_CASE("threads may allocate and free across each other", "[allocator]") {
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
          if (old[0] != t || old[size - 1] != t) std::terminate();  // handed out twice
          allocator.deallocate(old, size, Category::workspace);
          blocks.pop_back();
        }
      }
      for (const auto& [block, bytes] : blocks) allocator.deallocate(block, bytes, Category::workspace);
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
