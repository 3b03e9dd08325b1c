// CachingAllocator: size classes with free lists over any source of memory, and the account of who holds what.
// Sees: allocator.h.
// Read next: caching_allocator.cpp, allocator.cpp (the CPU's source of memory).
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

/** Sizes are rounded up to multiples of 64 bytes to 1 KiB, then to one of 16 steps per power of two: at most 1/16 is lost. */
inline constexpr std::size_t kSizeClasses = 16 + 16 * 37;  // to 2^47 bytes
inline constexpr std::size_t kLargestBlock = std::size_t{1} << 47;

/** Class of a size, 0 <= bytes <= kLargestBlock. */
MZ_API std::size_t size_class(std::size_t bytes);
/** Bytes of a block of a class. */
MZ_API std::size_t class_bytes(std::size_t size_class);

}  // namespace detail

/** The memory of a captured step: it works in the same blocks whenever it is replayed, so they serve nobody else while it lives. */
class MZ_API BlockPool {
 private:
  friend class CachingAllocator;
  std::unordered_map<void*, std::size_t> classes;            // of all its blocks
  std::unordered_map<std::size_t, std::vector<void*>> free;  // by class
  std::vector<std::pair<void*, std::size_t>>
      kept;  // blocks from outside that were freed within, with their classes
};

/** Keeps freed blocks in one list per size class and hands out the most recently freed one. A block serves its own class only, so what a
 *  program asks for decides alone where its cache ends up.
 *  On a device a block also serves one queue only, that of its first use: the next user's work comes behind the last one's there. What other queues
 *  do with it is announced by record_use(), and the block waits, once freed, for marks in these queues. */
class MZ_API CachingAllocator : public Allocator {
 public:
  /** `device` appears in errors. `queues` are those of record_use(); they outlive the allocator. */
  explicit CachingAllocator(Device device, const Queues* queues = nullptr);
  ~CachingAllocator() override;

  void* allocate(std::size_t bytes, MemoryCategory category) final;
  void deallocate(void* block, std::size_t bytes, MemoryCategory category) noexcept final;
  void record_use(void* block, Device device, Queue queue) final;
  void recategorise(std::size_t bytes, MemoryCategory from, MemoryCategory to) noexcept final;
  MemoryStats stats() const final;
  void reset_peak() final;
  void empty_cache() final;
  void fail_nth(std::int64_t n) final;

  /** From here on what this thread allocates comes from the pool, and what it frees stays there. */
  void begin_pool(BlockPool& pool);
  void end_pool() noexcept;
  /** The pool's blocks become ordinary ones: free ones at once, others when they are freed. */
  void release_pool(BlockPool& pool) noexcept;

 protected:
  struct SystemMemory {
    std::int64_t free = 0, total = 0;  // bytes
  };

  /** The CPU's. */
  static SystemMemory host_memory();

  /** A block from the system, aligned to 64 bytes, or null. */
  virtual void* system_allocate(std::size_t bytes) = 0;
  virtual void system_free(void* block, std::size_t bytes) noexcept = 0;
  virtual SystemMemory system_memory() const = 0;
  /** The queue that this thread's work with a block goes into; null for the main one, and for memory that knows no queues. */
  virtual Queue home_queue() const { return nullptr; }
  /** What it is memory of, for errors. */
  virtual std::string what() const;
  /** Called for a block entering and leaving the cache, so that a checker can flag its use meanwhile. */
  virtual void on_cached(void*, std::size_t /*block_bytes*/) noexcept {}
  virtual void on_reused(void*, std::size_t /*block_bytes*/, std::size_t /*bytes*/) noexcept {}

  /** For the destructors of subclasses, while system_free() is still theirs. */
  void release_cache() noexcept;

 private:
  struct SizeClass {
    std::vector<void*> free;
    std::int64_t live = 0;
  };
  /** A queue that used a block, and the mark behind its last work with it; null until it can be set. */
  struct Use {
    Device device;
    Queue queue = nullptr;
    Mark mark = nullptr;
  };
  /** A freed block that queues may still work with. */
  struct Waiting {
    void* block;
    std::size_t index;
    std::vector<Use> uses;
  };

  std::vector<void*>& free_list(Queue queue, std::size_t index);
  void* take(std::size_t index);
  void* take_pooled(std::size_t index);
  bool fills_pool() const { return filling_ && filler_ == std::this_thread::get_id(); }
  /** Whether the block stays with a pool. */
  bool return_to_pool(void* block, std::size_t index) noexcept;
  /** Into the cache, now or when the queues that used it are done. */
  void retire(void* block, std::size_t index) noexcept;
  void cache(void* block, std::size_t index) noexcept;
  void release(std::vector<void*>& blocks, std::size_t index) noexcept;
  /** Caches what nobody works with any more; `wait`: waits on the host for as much as can be waited for. */
  void collect(bool wait) noexcept;
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
  std::unordered_map<void*, BlockPool*> pooled_;  // the pools of blocks that have one
  const Queues* queues_;
  std::unordered_map<void*, Queue> homes_;  // of blocks of side queues
  std::unordered_map<Queue, std::unordered_map<std::size_t, std::vector<void*>>> side_free_;  // by class
  std::unordered_map<void*, std::vector<Use>> uses_;
  std::vector<Waiting> waiting_;
};

}  // namespace mezzo
