// LimitAllocator: refuses blocks above a size, so that a call which asks for too much fails at
// once.
// Sees: mezzo.h.
// Read next: fuzz.cpp.
#pragma once

#include <mezzo.h>

#include "../support/forwarding_allocator.h"

namespace fuzz {

/** Passes everything on but what is larger than the limit. */
class LimitAllocator final : public allocators::ForwardingAllocator {
 public:
  LimitAllocator(mezzo::Allocator& real, std::size_t most) : ForwardingAllocator(real), most_(most) {}

  void* allocate(std::size_t bytes, mezzo::MemoryCategory category) override {
    if (bytes > most_) mezzo::fail<mezzo::OutOfMemory>("allocate", {.what = "more than the test allows"});
    return real_.allocate(bytes, category);
  }

 private:
  std::size_t most_;
};

/** In place of a device's allocator while it lives. */
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
