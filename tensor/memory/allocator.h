// Allocator: allocates a device's memory and counts it by category. Blocks are cached, so that
// training steps after the first make no system calls.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "../core/macros.h"
#include "../device/device.h"
#include "../device/queues.h"

namespace mezzo {

/** What a block of memory is used for. */
enum class MemoryCategory : std::uint8_t {
  weights,          // parameters and buffers of modules
  masters,          // f32 masters of 16-bit parameters
  gradients,        // accumulated gradients of leaves
  optimizer_state,  // moments and other tensors that optimizers keep
  activations,      // memory allocated outside every CategoryScope
  cast_cache,       // 16-bit casts of weights that autocast keeps
  workspace,        // scratch memory of kernels, the optimizers' included
  communication,    // the library allocates none
  other             // everything else, such as batches of data loaders
};
/** The number of enumerators of MemoryCategory. */
inline constexpr std::size_t kNumMemoryCategories = 9;

/** Returns the name of a category: "weights", "optimizer state", ... */
constexpr std::string_view name(MemoryCategory category) {
  constexpr std::array<std::string_view, kNumMemoryCategories> kNames{
      "weights",   "masters",       "gradients", "optimizer state", "activations", "cast cache",
      "workspace", "communication", "other"};
  return kNames[static_cast<std::size_t>(category)];
}

/** The memory use of one category. Bytes are the requested sizes, without rounding. */
struct MemoryUse {
  std::int64_t current = 0;      // bytes in use
  std::int64_t peak = 0;         // most bytes in use at once since the last reset
  std::int64_t allocations = 0;  // number of allocations so far
};

/** The memory use of a device. */
struct MemoryStats {
  MemoryUse total;                                          // all categories together
  std::array<MemoryUse, kNumMemoryCategories> by_category;  // by MemoryCategory
  /** Bytes allocated from the system, in use or cached; reserved - cached - total.current is
   *  lost to rounding. */
  std::int64_t reserved = 0;
  std::int64_t cached = 0;  // bytes kept for reuse

  /** Returns the memory use of one category. */
  const MemoryUse& operator[](MemoryCategory category) const {
    return by_category[static_cast<std::size_t>(category)];
  }
};

/** Allocates the memory of one device. All functions may be called from any thread. */
class MZ_API Allocator {
 public:
  Allocator() = default;
  virtual ~Allocator();
  Allocator(const Allocator&) = delete;             // Not copyable.
  Allocator& operator=(const Allocator&) = delete;  // Not copyable.

  /** Returns uninitialised memory, aligned to 64 bytes; not null even for 0 bytes. Errors:
   *  OutOfMemory, after the cached blocks have been released and the allocation tried once more;
   *  only the cache has changed then. */
  virtual void* allocate(std::size_t bytes, MemoryCategory category) = 0;

  /** Frees a block of allocate(), given its size and its current category. Null is ignored. */
  virtual void deallocate(void* block, std::size_t bytes, MemoryCategory category) noexcept = 0;

  /** Records that work in `queue` also reads or writes the block. After deallocate() the block is
   *  not reused before all work in the queue at that time is done. For a block in use. Uses in the
   *  queue that it was allocated in need not be recorded. */
  virtual void record_use(void* block, Device device, DeviceQueue queue) = 0;

  /** Moves `bytes` of the statistics to another category. */
  virtual void recategorise(std::size_t bytes, MemoryCategory from, MemoryCategory to) noexcept = 0;

  /** Returns the current memory use. */
  virtual MemoryStats stats() const = 0;
  /** Resets every peak to the bytes in use. */
  virtual void reset_peak() = 0;
  /** Releases cached blocks to the system. */
  virtual void empty_cache() = 0;
  /** For tests: makes the n-th allocation from now throw OutOfMemory (1 is the next); 0 cancels
   *  this. */
  virtual void fail_nth(std::int64_t n) = 0;
};

/** Returns the allocator of a device. Errors: DeviceError if this build or machine has no such
 *  device. */
MZ_API Allocator& allocator_for(Device device);

/** Returns the allocator of pinned host memory, which devices access directly. Errors: DeviceError
 *  if this build or machine has no device. */
MZ_API Allocator& pinned_allocator();

/** Registers the allocator of `device` (index 0..127); called when a backend starts. It must live
 *  as long as the process; null removes it. */
MZ_API void set_allocator(Device device, Allocator* allocator);

/** Returns current and peak use of a device's memory, by category and in total. Errors:
 *  DeviceError. */
MZ_API MemoryStats memory_stats(Device device = cpu);
/** Resets every peak of a device to the bytes in use. Errors: DeviceError. */
MZ_API void reset_peak_memory(Device device = cpu);
/** Releases a device's cached blocks to the system. Errors: DeviceError. */
MZ_API void empty_cache(Device device = cpu);

/** Returns the category of memory allocated on this thread; activations outside every scope. */
MZ_API MemoryCategory current_category();

/** A scope that sets the category of memory allocated on this thread. */
class MZ_API CategoryScope {
 public:
  /** Sets the category until the destructor restores the previous one. */
  explicit CategoryScope(MemoryCategory category);
  ~CategoryScope();
  CategoryScope(const CategoryScope&) = delete;             // Not copyable.
  CategoryScope& operator=(const CategoryScope&) = delete;  // Not copyable.

 private:
  MemoryCategory outer_;
};

/** Configures malloc to keep large blocks instead of returning them to the system after each use,
 *  for the whole process. Speeds up matrix products of a few hundred rows, whose workspace comes
 *  from malloc, by up to 1.7 times. To be called at program start; the library does not call it. */
MZ_API void tune_malloc();

/** Receives each change of an allocator's statistics by this thread, from construction to
 *  destruction. Hooks nest: all open ones are called. */
class MemoryHook {
 public:
  MemoryHook(const MemoryHook&) = delete;             // Not copyable.
  MemoryHook& operator=(const MemoryHook&) = delete;  // Not copyable.

  /** Calls the hooks of this thread. The allocator's lock is held. */
  static void call(const Allocator& allocator, MemoryCategory category, std::int64_t bytes,
                   std::int64_t current) noexcept {
    if (open_.load(std::memory_order_relaxed) == 0) return;
    for (MemoryHook* hook = innermost(); hook; hook = hook->outer_)
      hook->memory_changed(allocator, category, bytes, current);
  }

 protected:
  MemoryHook();
  ~MemoryHook();

  /** Called after `bytes` were allocated in a category, or freed if negative; 0 if they moved
   *  between categories. `current` are the bytes in use in the category then, by all threads. Must
   *  not allocate from the allocator, whose lock is held. */
  virtual void memory_changed(const Allocator& allocator, MemoryCategory category,
                              std::int64_t bytes, std::int64_t current) noexcept = 0;

 private:
  static MemoryHook*& innermost();
  static inline std::atomic<int> open_ =
      0;  // hooks of all threads; cheaper to read than innermost()
  MemoryHook* outer_;
};

}  // namespace mezzo
