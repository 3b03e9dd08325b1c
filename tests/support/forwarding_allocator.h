// ForwardingAllocator: the base of the tests' allocators, each of which overrides one function.
#pragma once

#include <mezzo.h>

namespace allocators {

/** Forwards every call to another allocator. */
class ForwardingAllocator : public mezzo::Allocator {
 public:
  explicit ForwardingAllocator(mezzo::Allocator& real) : real_(real) {}

  void* allocate(std::size_t bytes, mezzo::MemoryCategory category) override {
    return real_.allocate(bytes, category);
  }
  void deallocate(void* block, std::size_t bytes,
                  mezzo::MemoryCategory category) noexcept override {
    real_.deallocate(block, bytes, category);
  }
  void record_use(void* block, mezzo::Device device, mezzo::DeviceQueue queue) override {
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

 protected:
  mezzo::Allocator& real_;
};

}  // namespace allocators
