// PinnedAllocator: cached blocks of pinned host memory for asynchronous copies.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "../../tensor/memory/caching_allocator.h"

namespace mezzo::gpu {

/** Allocator of pinned host memory. It caches blocks, because allocating pinned memory synchronises
 *  the device. A block is not reused while a copy may still access it. */
class PinnedAllocator final : public CachingAllocator {
 public:
  explicit PinnedAllocator(const Queues& queues) : CachingAllocator(cpu, &queues) {}

  /** Returns the start of the block that contains an address, or null if it is not pinned
   *  memory. */
  void* block_of(const void* address) const;

 private:
  void* system_allocate(std::size_t bytes) override;
  void system_free(void* block, std::size_t bytes) noexcept override;
  /** Returns the host's memory; the limit for pinned memory is not known. */
  SystemMemory system_memory() const override { return host_memory(); }
  std::string what() const override { return "the CPU's pinned memory"; }

  mutable std::mutex blocks_mutex_;
  std::map<const char*, std::size_t> blocks_;  // start and size in bytes
};

}  // namespace mezzo::gpu
