// CachingAllocator: an allocator with size classes and free lists over any source of memory, and
// statistics by category.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocator.h"

namespace mezzo {

namespace detail {

/** The number of size classes, which reach to 2^47 bytes. Sizes are rounded up to multiples of 64
 *  bytes up to 1 KiB, then to one of 16 steps per power of two: at most 1/16 is lost. */
inline constexpr std::size_t kSizeClasses = 16 + 16 * 37;
inline constexpr std::size_t kLargestBlock = std::size_t{1} << 47;

/** Returns the size class of 0 <= bytes <= kLargestBlock. */
MZ_API std::size_t size_class(std::size_t bytes);
/** Returns the bytes of a block of a class. */
MZ_API std::size_t class_bytes(std::size_t size_class);

}  // namespace detail

/** The memory pool of a captured step. Every replay uses the same blocks, so nothing else may use
 *  them while the step exists. */
class MZ_API BlockPool {
 private:
  friend class CachingAllocator;
  std::unordered_map<void*, std::size_t> classes;            // size class of every block
  std::unordered_map<std::size_t, std::vector<void*>> free;  // free blocks by size class
  // Blocks from outside the pool that were freed during the capture, with their size classes.
  std::vector<std::pair<void*, std::size_t>> kept;
};

/** Keeps freed blocks in one list per size class and reuses the most recently freed one. A block is
 *  reused only within its size class, so the cache size depends only on the program's requests. On
 *  a device a block is also reused only in one queue, that of its first use, where the work of the
 *  next user follows that of the previous one. Uses in other queues are announced by record_use();
 *  once freed, the block is cached only after these queues have passed a mark. */
class MZ_API CachingAllocator : public Allocator {
 public:
  /** Constructs the allocator. `device` appears in errors. `queues` are those passed to
   *  record_use(); they must outlive the allocator. */
  explicit CachingAllocator(Device device, const Queues* queues = nullptr);
  ~CachingAllocator() override;

  void* allocate(std::size_t bytes, MemoryCategory category) final;
  void deallocate(void* block, std::size_t bytes, MemoryCategory category) noexcept final;
  void record_use(void* block, Device device, DeviceQueue queue) final;
  void recategorise(std::size_t bytes, MemoryCategory from, MemoryCategory to) noexcept final;
  MemoryStats stats() const final;
  void reset_peak() final;
  void empty_cache() final;
  void fail_nth(std::int64_t n) final;

  /** Makes this thread allocate from the pool, and keeps blocks that it frees in the pool. */
  void begin_pool(BlockPool& pool);
  /** Ends begin_pool(). */
  void end_pool() noexcept;
  /** Turns the pool's blocks into ordinary ones: free ones immediately, others when they are
   *  freed. */
  void release_pool(BlockPool& pool) noexcept;

 protected:
  struct SystemMemory {
    std::int64_t free = 0, total = 0;  // bytes
  };

  /** Returns the host's memory. */
  static SystemMemory host_memory();

  /** Returns a block from the system, aligned to 64 bytes, or null. */
  virtual void* system_allocate(std::size_t bytes) = 0;
  /** Returns a block to the system. */
  virtual void system_free(void* block, std::size_t bytes) noexcept = 0;
  /** Returns free and total memory of the device, for errors. */
  virtual SystemMemory system_memory() const = 0;
  /** Returns the queue that this thread's work with a block is put into; null for the main queue
   *  and for memory without queues. */
  virtual DeviceQueue home_queue() const { return nullptr; }
  /** Returns what the memory belongs to, for errors. */
  virtual std::string what() const;
  /** Called when a block enters and leaves the cache, so that a checker can detect its use in
   *  between. */
  virtual void on_cached(void*, std::size_t /*block_bytes*/) noexcept {}
  virtual void on_reused(void*, std::size_t /*block_bytes*/, std::size_t /*bytes*/) noexcept {}

  /** Releases all cached blocks. Destructors of subclasses call it while their system_free() is
   *  still available. */
  void release_cache() noexcept;

 private:
  /** The free blocks of a size class, and the number of its blocks in use. */
  struct SizeClass {
    std::vector<void*> free;
    std::int64_t live = 0;
  };
  /** A queue that used a block, and the mark after its last work with it; null until it can be
   *  set. */
  struct Use {
    Device device;
    DeviceQueue queue = nullptr;
    QueueMark mark = nullptr;
  };
  /** A freed block that is still in use by queues. */
  struct Waiting {
    void* block;
    std::size_t index;
    std::vector<Use> uses;
  };

  /** Returns the free list of a size class and a queue. */
  std::vector<void*>& free_list(DeviceQueue queue, std::size_t index);
  /** Returns a free block, else one from the system, else null. Releases the cache before the
   *  second try. */
  void* take(std::size_t index);
  /** Returns a block of the pool that is being filled, or null. */
  void* take_pooled(std::size_t index);
  /** Returns true if this thread allocates from a pool. */
  bool fills_pool() const { return filling_ && filler_ == std::this_thread::get_id(); }
  /** Keeps the block in its pool. Returns false if it belongs to none. */
  bool return_to_pool(void* block, std::size_t index) noexcept;
  /** Caches a block, immediately or when the queues that used it are done. */
  void retire(void* block, std::size_t index) noexcept;
  /** Puts a block into its free list. */
  void cache(void* block, std::size_t index) noexcept;
  /** Returns the blocks of a list to the system. */
  void release(std::vector<void*>& blocks, std::size_t index) noexcept;
  /** Caches the blocks whose queues are done. With `wait` it blocks the host until the queues are
   *  done, where possible. */
  void collect(bool wait) noexcept;
  /** Returns true if the queue has passed its last use of the block. */
  bool is_done(Use& use, bool wait) const noexcept;
  void count(std::size_t bytes, MemoryCategory category);
  void uncount(std::size_t bytes, MemoryCategory category);
  [[noreturn]] void throw_out_of_memory(std::size_t bytes) const;

  Device device_;
  mutable std::mutex mutex_;
  std::vector<SizeClass> classes_;
  MemoryStats stats_;
  std::int64_t fail_in_ = 0;
  BlockPool* filling_ = nullptr;
  std::thread::id filler_;
  std::unordered_map<void*, BlockPool*> pooled_;  // the pool of each pooled block
  const Queues* queues_;
  std::unordered_map<void*, DeviceQueue> block_queues_;  // the queue of each block of a side queue
  // Free blocks of side queues, by queue and size class.
  std::unordered_map<DeviceQueue, std::unordered_map<std::size_t, std::vector<void*>>> side_free_;
  std::unordered_map<void*, std::vector<Use>> uses_;
  std::vector<Waiting> waiting_;
};

}  // namespace mezzo
