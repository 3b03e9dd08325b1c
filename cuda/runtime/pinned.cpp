#include "pinned.h"

#include <iterator>

#include "runtime.h"

namespace mezzo::gpu {

void* PinnedAllocator::block_of(const void* address) const {
  const std::lock_guard lock(blocks_mutex_);
  const auto* at = static_cast<const char*>(address);
  auto next = blocks_.upper_bound(at);
  if (next == blocks_.begin()) return nullptr;
  const auto& [start, bytes] = *std::prev(next);
  return at < start + bytes ? const_cast<char*>(start) : nullptr;
}

void* PinnedAllocator::system_allocate(std::size_t bytes) {
  void* block = runtime::allocate_pinned(bytes);
  if (!block) return nullptr;
  const std::lock_guard lock(blocks_mutex_);
  blocks_.emplace(static_cast<const char*>(block), bytes);
  return block;
}

void PinnedAllocator::system_free(void* block, std::size_t) noexcept {
  {
    const std::lock_guard lock(blocks_mutex_);
    blocks_.erase(static_cast<const char*>(block));
  }
  runtime::deallocate_pinned(block);
}

}  // namespace mezzo::gpu
