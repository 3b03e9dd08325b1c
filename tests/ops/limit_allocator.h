// LimitAllocator: rejects blocks above a size, so that a call which needs too much memory fails at
// once.
#pragma once

#include <mezzo.h>

#include "../support/forwarding_allocator.h"

namespace fuzz {

/** Forwards requests up to the limit and rejects larger ones. */
class LimitAllocator final : public allocators::ForwardingAllocator {
 public:
  LimitAllocator(mezzo::Allocator& real, std::size_t most)
      : ForwardingAllocator(real), most_(most) {}

  void* allocate(std::size_t bytes, mezzo::MemoryCategory category) override {
    if (bytes > most_)
      mezzo::fail<mezzo::OutOfMemory>("allocate", {.what = "more than the test allows"});
    return real_.allocate(bytes, category);
  }

 private:
  std::size_t most_;
};

/** Replaces a device's allocator by a LimitAllocator while in scope. */
class MemoryLimit {
 public:
  MemoryLimit(mezzo::Device device, std::size_t most)
      : device_(device), real_(mezzo::allocator_for(device)), limit_(real_, most) {
    mezzo::set_allocator(device_, &limit_);
  }
  ~MemoryLimit() { mezzo::set_allocator(device_, &real_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  mezzo::Device device_;
  mezzo::Allocator& real_;
  LimitAllocator limit_;
};

}  // namespace fuzz
