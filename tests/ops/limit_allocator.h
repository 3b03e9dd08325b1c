// LimitAllocator: refuses blocks above a size, so that a call which asks for too much fails at
// once.
// Sees: mezzo.h.
// Read next: fuzz.cpp.
#pragma once

#include <mezzo.h>

namespace fuzz {

/** Passes everything on but what is larger than the limit. */
class LimitAllocator final : public mezzo::Allocator {
 public:
  LimitAllocator(mezzo::Allocator& real, std::size_t most) : real_(real), most_(most) {}

  void* allocate(std::size_t bytes, mezzo::MemoryCategory category) override {
    if (bytes > most_) mezzo::fail<mezzo::OutOfMemory>("allocate", {.what = "more than the test allows"});
    return real_.allocate(bytes, category);
  }
  void deallocate(void* block, std::size_t bytes, mezzo::MemoryCategory category) noexcept override {
    real_.deallocate(block, bytes, category);
  }
  void record_use(void* block, mezzo::Device device, mezzo::Queue queue) override {
    real_.record_use(block, device, queue);
  }
  void recategorise(std::size_t bytes, mezzo::MemoryCategory from,
                    mezzo::MemoryCategory to) noexcept override {
    real_.recategorise(bytes, from, to);
  }
  mezzo::MemoryStats stats() const override { return real_.stats(); }
  void reset_peak() override { real_.reset_peak(); }
  void empty_cache() override { real_.empty_cache(); }
  void fail_nth(std::int64_t n) override { real_.fail_nth(n); }

 private:
  mezzo::Allocator& real_;
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
