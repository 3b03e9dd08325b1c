// Pinned host memory: cached blocks that devices copy from and to while the host goes on.
// Sees: ../tensor/caching_allocator.h.
// Read next: pinned.cpp, device.cpp (who copies).
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "../tensor/caching_allocator.h"

namespace mezzo::gpu {

/** Asking the driver for pinned memory stops the device, so blocks are kept; one that a copy may still be under way in serves nobody else. */
class PinnedAllocator final : public CachingAllocator {
 public:
  explicit PinnedAllocator(const Queues& queues) : CachingAllocator(cpu, &queues) {}

  /** The start of the block that an address lies in; null where it is in no pinned memory. */
  void* block_of(const void* address) const;

 private:
  void* system_allocate(std::size_t bytes) override;
  void system_free(void* block, std::size_t bytes) noexcept override;
  /** What the host has: how much of it may be pinned, nobody tells. */
  SystemMemory system_memory() const override { return host_memory(); }
  std::string what() const override { return "the CPU's pinned memory"; }

  mutable std::mutex blocks_mutex_;
  std::map<const char*, std::size_t> blocks_;  // and their sizes
};

}  // namespace mezzo::gpu
