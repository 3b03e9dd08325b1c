// GuardAllocator: detects writes before or after a block of CPU memory.
#pragma once

#include <mezzo.h>

#include <cstring>
#include <map>
#include <mutex>

#include "../support/forwarding_allocator.h"

namespace cases {

/** Surrounds every allocated block with a pattern and fills the block with another. Blocks from
 *  before its installation are passed through. */
class GuardAllocator final : public allocators::ForwardingAllocator {
 public:
  explicit GuardAllocator(mezzo::Allocator& real) : ForwardingAllocator(real) {}

  /** Returns how many blocks, freed or not, had damaged guards so far. */
  std::int64_t damaged() {
    const std::lock_guard lock(mutex_);
    std::int64_t count = damaged_;
    for (const auto& [block, bytes] : held_) count += intact(block, bytes) ? 0 : 1;
    return count;
  }
  std::int64_t guarded() const { return guarded_; }
  /** Sets the byte that blocks are filled with. */
  void set_unwritten(unsigned char byte) { unwritten_ = byte; }

  void* allocate(std::size_t bytes, mezzo::MemoryCategory category) override {
    auto* whole = static_cast<unsigned char*>(real_.allocate(bytes + 2 * kGuard, category));
    std::memset(whole, kPattern, bytes + 2 * kGuard);
    std::memset(whole + kGuard, unwritten_, bytes);
    const std::lock_guard lock(mutex_);
    ++guarded_;
    held_[whole + kGuard] = bytes;
    return whole + kGuard;
  }

  void deallocate(void* block, std::size_t bytes,
                  mezzo::MemoryCategory category) noexcept override {
    if (!block) return;
    const std::lock_guard lock(mutex_);
    const auto at = held_.find(static_cast<unsigned char*>(block));
    if (at == held_.end()) return real_.deallocate(block, bytes, category);
    if (!intact(at->first, at->second)) ++damaged_;
    held_.erase(at);
    real_.deallocate(static_cast<unsigned char*>(block) - kGuard, bytes + 2 * kGuard, category);
  }

 private:
  static constexpr std::size_t kGuard = 64;  // keeps the alignment
  static constexpr unsigned char kPattern = 0xA7;

  static bool intact(const unsigned char* block, std::size_t bytes) {
    for (std::size_t i = 0; i < kGuard; ++i)
      if (block[i - kGuard] != kPattern || block[bytes + i] != kPattern) return false;
    return true;
  }

  unsigned char unwritten_ = 0xFF;  // a nan in every floating dtype
  std::mutex mutex_;
  std::map<unsigned char*, std::size_t> held_;
  std::int64_t damaged_ = 0, guarded_ = 0;
};

/** Installs guards around all CPU memory for the rest of the process, since tensors may outlive any
 *  scope. */
inline GuardAllocator& install_guards() {
  static GuardAllocator& guards = *new GuardAllocator(mezzo::allocator_for(mezzo::cpu));
  mezzo::set_allocator(mezzo::cpu, &guards);
  return guards;
}

}  // namespace cases
