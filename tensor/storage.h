// Storage: one refcounted block of a device's memory, shared by all views of a tensor, with its write counter.
// Sees: allocator.h, device.h, refcount.h.
// Read next: tensor.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "allocator.h"
#include "device.h"
#include "refcount.h"

namespace mezzo {

class MZ_API Storage final : public RefCounted {
 public:
  /** `bytes` of uninitialised memory, 64-byte aligned; the CPU's may be pinned. Errors: OutOfMemory; DeviceError where the device is absent, and for
   *  pinned memory where there is none. */
  Storage(std::size_t bytes, Device device, bool pinned = false);
  ~Storage();

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool is_pinned() const { return is_pinned_; }
  MemoryCategory category() const { return category_; }
  /** Moves the bytes to another category of the memory statistics, e.g. when a tensor becomes a gradient. */
  void set_category(MemoryCategory category);

  /** Number of in-place writes so far, through any view. */
  std::uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }
  /** The write that was counted last did not happen. */
  void take_back_version() { version_.fetch_sub(1, std::memory_order_relaxed); }
  /** For a block that takes another's place in a tensor: its version is above the other's, so whoever noted that one sees a change. */
  void outlive_versions_of(const Storage& predecessor) {
    if (version() <= predecessor.version())
      version_.store(predecessor.version() + 1, std::memory_order_relaxed);
  }

 private:
  Allocator& allocator() const { return is_pinned_ ? pinned_allocator() : allocator_for(device_); }

  void* data_;
  std::size_t bytes_;
  Device device_;
  bool is_pinned_;
  MemoryCategory category_;
  std::atomic<std::uint32_t> version_{0};
};

}  // namespace mezzo
