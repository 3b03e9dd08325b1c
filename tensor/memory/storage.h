// Storage: a reference-counted block of a device's memory with a write counter. All views of a
// tensor share it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "../core/pointers.h"
#include "../device/device.h"
#include "allocator.h"

namespace mezzo {

class Storage;

/** A write to the memory of a storage that runs when data() is first called. Saves the write and
 *  the memory of results that no code reads. */
class MZ_API LateWrite {
 public:
  virtual ~LateWrite();
  /** Writes the values, into memory that is allocated by then. In this thread, data() of the
   *  storage returns its address meanwhile; other threads wait there. */
  virtual void run(Storage& storage) = 0;
};

/** A block of a device's memory, shared by all views of a tensor. */
class MZ_API Storage final : public RefCounted {
 public:
  /** Allocates `bytes` of uninitialised memory, aligned to 64 bytes; memory of the CPU may be
   *  pinned. Errors: OutOfMemory; DeviceError if the device is absent, or if `pinned` is set for a
   *  device or without one. */
  Storage(std::size_t bytes, Device device, bool pinned = false);
  /** Refers to memory of the CPU that the storage does not own. The destructor calls `release`
   * unless it is empty. The bytes do not count in the memory statistics. */
  Storage(void* data, std::size_t bytes, std::function<void()> release);
  /** Allocates memory when it is first asked for, and runs `late`, which is not null, then. Errors:
   *  DeviceError if the device is absent. */
  Storage(std::size_t bytes, Device device, std::shared_ptr<LateWrite> late);
  ~Storage();

  /** Returns the address of the first byte on device(); not null even for 0 bytes. Runs the late
   *  write, if there is one. Errors: OutOfMemory and those of the late write, which stays then. */
  void* data() const {
    if (is_late()) run_late_write();
    return data_;
  }
  /** Sets a write to run when data() is next called, or none. An earlier one that has not run is
   *  dropped. The caller makes sure that no other thread uses the storage. */
  void set_late_write(std::shared_ptr<LateWrite> late);
  /** Returns the late write that has not run yet; null if there is none. */
  std::shared_ptr<LateWrite> late_write() const;
  /** Returns whether there is one. */
  bool is_late() const { return is_late_.load(std::memory_order_acquire); }
  /** Returns the address without running the late write; null if there is no memory yet. */
  void* present_data() const { return data_; }
  /** Returns the size as requested, without the allocator's rounding. */
  std::size_t bytes() const { return bytes_; }
  /** Returns the device of the memory; the CPU for pinned memory. */
  Device device() const { return device_; }
  /** Returns true if the memory is pinned host memory, which devices access directly. */
  bool is_pinned() const { return is_pinned_; }
  /** Returns the category in the memory statistics. */
  MemoryCategory category() const { return category_; }
  /** Moves the bytes to another category of the memory statistics, for example when a tensor
   *  becomes a gradient. */
  void set_category(MemoryCategory category);

  /** Says that the block holds a weight, which is read more often than it is written: kernels may
   *  keep packed copies of it until version() changes. */
  void keep_packed() { keeps_packed_ = true; }
  /** Returns whether keep_packed() was called and no caller has the address. */
  bool keeps_packed() const { return keeps_packed_ && !is_exposed(); }
  /** Returns what kernels keep with the block (tensor/cpu/kept_panels.h), which guard it. */
  std::shared_ptr<void>& packed() { return packed_; }

  /** Says that a caller gets the address and may write at any time without a change of version().
   *  Copies of the elements are then not kept for later. */
  void expose() {
    if (!is_exposed()) is_exposed_.store(true, std::memory_order_relaxed);
  }
  /** Returns whether expose() was called, or the memory is the caller's. */
  bool is_exposed() const { return is_exposed_.load(std::memory_order_relaxed) || is_external_; }

  /** Returns the number of in-place writes so far, through any view. */
  std::uint32_t version() const { return version_.load(std::memory_order_relaxed); }
  /** Counts an in-place write. */
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }
  /** Undoes the last bump_version(), for a write that failed. */
  void take_back_version() { version_.fetch_sub(1, std::memory_order_relaxed); }
  /** Raises the version above that of `predecessor`, whose place in a tensor this block takes, so
   *  that saved versions of the predecessor no longer match. */
  void outlive_versions_of(const Storage& predecessor) {
    if (version() <= predecessor.version())
      version_.store(predecessor.version() + 1, std::memory_order_relaxed);
  }

 private:
  Allocator& allocator() const { return is_pinned_ ? pinned_allocator() : allocator_for(device_); }
  void run_late_write() const;

  void* data_;
  std::size_t bytes_;
  Device device_;
  bool is_pinned_;
  bool is_external_ = false;  // memory that the storage does not own
  bool keeps_packed_ = false;
  MemoryCategory category_;
  std::function<void()> release_;  // of external memory
  std::atomic<bool> is_exposed_{false};
  std::atomic<std::uint32_t> version_{0};
  std::atomic<bool> is_late_{false};
  std::shared_ptr<LateWrite> late_;
  std::shared_ptr<void> packed_;
};

}  // namespace mezzo
