// MemoryHook: observes the memory that this thread allocates and frees.
#pragma once

#include <atomic>
#include <cstdint>

#include "allocator.h"

namespace mezzo {

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
