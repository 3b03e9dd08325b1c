// The caching allocator from several threads at once.
#include <cstdlib>
#include <utility>
#include <vector>

#include "../../tensor/memory/caching_allocator.h"
#include "../support/catch.h"
#include "on_threads.h"

using namespace mezzo;

namespace {

class MallocAllocator final : public CachingAllocator {
 public:
  MallocAllocator() : CachingAllocator(cpu) {}
  ~MallocAllocator() override { release_cache(); }

 private:
  void* system_allocate(std::size_t bytes) override { return std::malloc(bytes); }
  void system_free(void* block, std::size_t) noexcept override { std::free(block); }
  SystemMemory system_memory() const override { return {}; }
};

}  // namespace

TEST_CASE("a block that one thread frees is reused by another", "[threads]") {
  MallocAllocator allocator;
  threads::on_threads(4, [&](int t) {
    for (int i = 0; i < 500; ++i) {
      const auto bytes = static_cast<std::size_t>(64 << (i + t) % 4);
      void* memory = allocator.allocate(bytes, MemoryCategory::workspace);
      auto* block = static_cast<unsigned char*>(memory);
      block[0] = block[bytes - 1] = static_cast<unsigned char>(t);
      allocator.recategorise(bytes, MemoryCategory::workspace, MemoryCategory::gradients);
      if (i % 50 == 0) allocator.empty_cache();
      if (block[0] != t || block[bytes - 1] != t) throw std::runtime_error("handed out twice");
      allocator.deallocate(block, bytes, MemoryCategory::gradients);
      (void)allocator.stats();
    }
  });
  CHECK(allocator.stats().total.current == 0);
  CHECK(allocator.stats().total.allocations == 2000);
}
