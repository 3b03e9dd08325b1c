// Allocator: a device's memory, counted by what it is used for. Blocks are cached, so that a training step after the first asks no system.
// Sees: device.h, queues.h.
// Read next: storage.h (its user), caching_allocator.h (how blocks are kept).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "device.h"
#include "macros.h"
#include "queues.h"

namespace mezzo {

/** What a block of memory is for. */
enum class MemoryCategory : std::uint8_t {
  weights,
  masters,
  gradients,
  optimizer_state,
  activations,
  cast_cache,
  workspace,
  communication,
  other
};
inline constexpr std::size_t kNumMemoryCategories = 9;

/** "weights", "optimizer state", ... */
constexpr std::string_view name(MemoryCategory category) {
  constexpr std::array<std::string_view, kNumMemoryCategories> kNames{
      "weights",   "masters",       "gradients", "optimizer state", "activations", "cast cache",
      "workspace", "communication", "other"};
  return kNames[static_cast<std::size_t>(category)];
}

/** Use of memory for one purpose. Bytes are those asked for, without rounding. */
struct MemoryUse {
  std::int64_t current = 0;      // bytes held now
  std::int64_t peak = 0;         // most bytes held at once since the last reset
  std::int64_t allocations = 0;  // calls so far
};

struct MemoryStats {
  MemoryUse total;
  std::array<MemoryUse, kNumMemoryCategories> by_category;
  std::int64_t reserved =
      0;  // bytes taken from the system, in use or cached; reserved - cached - total.current is lost to rounding
  std::int64_t cached = 0;  // bytes kept for reuse

  const MemoryUse& operator[](MemoryCategory category) const {
    return by_category[static_cast<std::size_t>(category)];
  }
};

/** Memory of one device. All functions may be called from any thread. */
class MZ_API Allocator {
 public:
  Allocator() = default;
  virtual ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  /** Uninitialised memory, aligned to 64 bytes; not null even for 0 bytes. Errors: OutOfMemory, after cached blocks have been given back and
   *  one more try; then the allocator is as it was, but for the cache. */
  virtual void* allocate(std::size_t bytes, MemoryCategory category) = 0;

  /** Takes back a block of allocate(), with the size and the category it has now. Null is ignored. */
  virtual void deallocate(void* block, std::size_t bytes, MemoryCategory category) noexcept = 0;

  /** Work in this queue reads or writes the block too: after its deallocate() it serves nobody before what the queue holds by then is done. For
   *  a block in use; work in the queue that it was allocated in needs no mention. */
  virtual void record_use(void* block, Device device, Queue queue) = 0;

  /** Counts `bytes` under another category from now on. */
  virtual void recategorise(std::size_t bytes, MemoryCategory from, MemoryCategory to) noexcept = 0;

  virtual MemoryStats stats() const = 0;
  /** Sets every peak to the bytes held now. */
  virtual void reset_peak() = 0;
  /** Gives cached blocks back to the system. */
  virtual void empty_cache() = 0;
  /** For tests: the n-th allocation from now throws OutOfMemory (1 is the next); 0 calls that off. */
  virtual void fail_nth(std::int64_t n) = 0;
};

/** The allocator of a device. Errors: DeviceError where this build or machine has no such device. */
MZ_API Allocator& allocator_for(Device device);

/** Host memory that devices copy from and to without a detour. Errors: DeviceError where this build or machine has no device. */
MZ_API Allocator& pinned_allocator();

/** Makes `allocator` that of `device` (index 0..127); for a backend's start-up. It must live as long
 *  as the process; null takes it away. */
MZ_API void set_allocator(Device device, Allocator* allocator);

/** Current and peak use of a device's memory, by category and in total. Errors: DeviceError. */
MZ_API MemoryStats memory_stats(Device device = cpu);
/** Sets every peak of a device to the bytes held now. Errors: DeviceError. */
MZ_API void reset_peak_memory(Device device = cpu);
/** Gives a device's cached blocks back to the system. Errors: DeviceError. */
MZ_API void empty_cache(Device device = cpu);

/** What memory allocated on this thread is for; activations outside every scope. */
MZ_API MemoryCategory current_category();

/** Counts what this thread allocates under `category` until the end of the scope. */
class MZ_API CategoryScope {
 public:
  explicit CategoryScope(MemoryCategory category);
  ~CategoryScope();
  CategoryScope(const CategoryScope&) = delete;
  CategoryScope& operator=(const CategoryScope&) = delete;

 private:
  MemoryCategory outer_;
};

/** Asks malloc to keep large blocks instead of returning them to the system after each use, for the whole process. Gains up to 1.7 times in
 *  matrix products of a few hundred rows, whose work space comes from malloc. For the start of a program; the library does not call it. */
MZ_API void tune_malloc();

}  // namespace mezzo
