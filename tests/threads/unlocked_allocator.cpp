// Allocates CPU tensors with malloc under ThreadSanitizer. The caching allocator's lock orders any
// two threads that allocate, which would hide races between them.
#include <cstdlib>

#include "../../tensor/core/error.h"
#include "../../tensor/memory/allocator.h"
#include "thread_sanitizer.h"

#if MZ_THREAD_SANITIZER

namespace {

using namespace mezzo;

class UnlockedAllocator final : public Allocator {
 public:
  void* allocate(std::size_t bytes, MemoryCategory) override {
    void* block = nullptr;
    if (posix_memalign(&block, 64, bytes == 0 ? 1 : bytes) != 0)
      fail<OutOfMemory>("allocate", {.what = "out of memory"});
    return block;
  }
  void deallocate(void* block, std::size_t, MemoryCategory) noexcept override { std::free(block); }
  void record_use(void*, Device, DeviceQueue) override {}
  void recategorise(std::size_t, MemoryCategory, MemoryCategory) noexcept override {}
  MemoryStats stats() const override { return {}; }
  void reset_peak() override {}
  void empty_cache() override {}
  void fail_nth(std::int64_t) override {}
};

/** Blocks of the replaced allocator come from malloc too. Never destroyed: tensors with static
 *  storage free their blocks during exit. */
[[maybe_unused]] const bool installed = [] {
  set_allocator(cpu, new UnlockedAllocator);
  return true;
}();

}  // namespace

#endif
