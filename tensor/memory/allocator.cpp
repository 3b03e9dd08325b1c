#include "allocator.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "../core/error.h"
#include "../core/guard_list.h"
#include "../device/backend.h"
#include "../text/text.h"
#include "address_sanitizer.h"
#include "caching_allocator.h"

namespace mezzo {

namespace {

/** The allocator of host memory; uses posix_memalign. */
class CpuAllocator final : public CachingAllocator {
 public:
  CpuAllocator() : CachingAllocator(cpu) {}
  ~CpuAllocator() override { release_cache(); }

 private:
  static constexpr std::size_t kAlignment = 64;
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;

  /** Allocates a block. Large blocks request huge pages, whose first touch takes a third of the
   *  time that small pages take. */
  void* system_allocate(std::size_t bytes) override {
    const bool large = bytes >= kHugePage;
    const std::size_t alignment = large ? kHugePage : kAlignment;
    void* block = nullptr;
    if (posix_memalign(&block, alignment, bytes) != 0) return nullptr;
    if (large) madvise(block, bytes, MADV_HUGEPAGE);  // a hint; failure is harmless
    return block;
  }

  void system_free(void* block, std::size_t) noexcept override { std::free(block); }

  SystemMemory system_memory() const override { return host_memory(); }

#ifdef MZ_ADDRESS_SANITIZER
  void on_cached(void* block, std::size_t block_bytes) noexcept override {
    ASAN_POISON_MEMORY_REGION(block, block_bytes);
  }

  void on_reused(void* block, std::size_t block_bytes, std::size_t bytes) noexcept override {
    ASAN_POISON_MEMORY_REGION(block, block_bytes);
    ASAN_UNPOISON_MEMORY_REGION(block, bytes);
  }
#endif
};

constexpr int kMaxIndex = 128;
std::atomic<Allocator*> registered[kNumDeviceKinds][kMaxIndex];

/** Returns the CPU's allocator. It is never destroyed, because tensors with static storage free
 *  their blocks during exit. */
Allocator& cpu_allocator() {
  static Allocator& allocator = *new CpuAllocator;
  return allocator;
}

thread_local MemoryCategory thread_category = MemoryCategory::activations;

}  // namespace

CachingAllocator::SystemMemory CachingAllocator::host_memory() {
  SystemMemory memory;
  struct sysinfo info{};
  if (sysinfo(&info) == 0) {
    memory.total = static_cast<std::int64_t>(info.totalram) * info.mem_unit;
    memory.free = static_cast<std::int64_t>(info.freeram) * info.mem_unit;
  }
  std::ifstream meminfo("/proc/meminfo");  // also counts reclaimable page cache
  std::int64_t kib = 0;
  for (std::string key, rest; meminfo >> key; std::getline(meminfo, rest)) {
    if (key == "MemAvailable:" && meminfo >> kib) memory.free = kib * 1024;
  }
  return memory;
}

Allocator& allocator_for(Device device) {
  const bool is_known = device.index >= 0 && device.index < kMaxIndex;
  const auto& slot = registered[static_cast<int>(device.kind)][is_known ? device.index : 0];
  Allocator* own = is_known ? slot.load(std::memory_order_acquire) : nullptr;
  if (own) return *own;
  if (device == cpu) return cpu_allocator();
  if (device.kind == DeviceKind::cuda)
    require_cuda("allocate", str(device));  // the first use starts the backend
  own = is_known ? slot.load(std::memory_order_acquire) : nullptr;
  if (own) return *own;
  fail<DeviceError>("allocate", {.what = "no such device",
                                 .got = str(device),
                                 .expected = "a device of this build and machine"});
}

Allocator& pinned_allocator() {
  return require_cuda("pin_memory", "host memory to pin").pinned_memory();
}

void set_allocator(Device device, Allocator* allocator) {
  registered[static_cast<int>(device.kind)][device.index].store(allocator,
                                                                std::memory_order_release);
}

MemoryStats memory_stats(Device device) { return allocator_for(device).stats(); }

void reset_peak_memory(Device device) { allocator_for(device).reset_peak(); }

void empty_cache(Device device) { allocator_for(device).empty_cache(); }

MemoryCategory current_category() { return thread_category; }

CategoryScope::CategoryScope(MemoryCategory inner) : outer_(thread_category) {
  thread_category = inner;
}

CategoryScope::~CategoryScope() { thread_category = outer_; }

void tune_malloc() {
  constexpr int kKeep = 1 << 30;
  mallopt(M_TRIM_THRESHOLD, kKeep);
  if (mallopt(M_MMAP_THRESHOLD, kKeep) == 0)
    mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the maximum of older glibc versions
}

MemoryHook*& MemoryHook::innermost() {
  static constinit thread_local MemoryHook* hook = nullptr;
  return hook;
}

MemoryHook::MemoryHook() : outer_(std::exchange(innermost(), this)) {
  open_.fetch_add(1, std::memory_order_relaxed);
}

MemoryHook::~MemoryHook() {
  open_.fetch_sub(1, std::memory_order_relaxed);
  close_guard(innermost(), *this, &MemoryHook::outer_,
              "memory hooks must be destroyed in reverse order of construction");
}

}  // namespace mezzo
