#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

#include "../../tensor/memory/address_sanitizer.h"
#include "fill.h"

namespace mezzo::emulator {

namespace {

constexpr std::size_t kRange = std::size_t{64} << 30;  // of addresses
constexpr std::size_t kBlockGap = 256;                 // between blocks; preserves their alignment
// The memory is closed after one scope in kClosings; less often if it exceeds kCheapBytes.
constexpr std::uint64_t kClosings = 509;
constexpr std::size_t kCheapBytes = std::size_t{1} << 20;
constexpr unsigned char kGuard = 0xA7;  // fills the unused part of a block

class DeviceMemory {
 public:
  static DeviceMemory& memory() {
    static DeviceMemory& only = *new DeviceMemory;
    return only;
  }

  void open() {
    const std::lock_guard lock(mutex_);
    ++depth_;
    if (is_closed_) protect(PROT_READ | PROT_WRITE);
    is_closed_ = false;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    if (--depth_ > 0) return;
    const bool is_due = ++closings_ * kCheapBytes >= kClosings * std::max(reach_, kCheapBytes);
    if (!is_due && !closes_after_every_scope_) return;
    closings_ = 0;
    close_now();
  }
  void close_now() {
    const std::lock_guard lock(mutex_);
    if (!is_closed_) protect(PROT_NONE);
    is_closed_ = true;
  }

  bool holds(const void* address) const {
    const auto* at = static_cast<const char*>(address);
    return at >= base_ && at < base_ + kRange;
  }

  void* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t room =
        (std::max<std::size_t>(bytes, 1) + kBlockGap - 1) / kBlockGap * kBlockGap + kBlockGap;
    if (taken_ + bytes > size_) return nullptr;
    char* block = find(room);
    if (!block) return nullptr;
    blocks_[block] = {bytes, 0, room};
    taken_ += bytes;
    return block;
  }

  void give(void* address) {
    const std::lock_guard lock(mutex_);
    const auto at = blocks_.find(static_cast<char*>(address));
    if (at == blocks_.end()) return;
    taken_ -= at->second.bytes;
    free_.emplace(at->second.room, at->first);
    blocks_.erase(at);
  }

  void use(void* address, std::size_t block_bytes, std::size_t bytes) {
    open();
    ASAN_UNPOISON_MEMORY_REGION(address, block_bytes);
    std::memset(address, 0xFF, bytes);
    std::memset(static_cast<char*>(address) + bytes, kGuard, block_bytes - bytes);
    ASAN_POISON_MEMORY_REGION(static_cast<char*>(address) + bytes, block_bytes - bytes);
    close();
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<char*>(address)].used = bytes;
  }

  void use_as_is(void* address, std::size_t block_bytes) {
    if (DryRun::is_on())
      clear_start(address, std::min(block_bytes, DryRun::kCopied));
    else
      ASAN_UNPOISON_MEMORY_REGION(address, block_bytes);
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<char*>(address)].used = block_bytes;
  }

  void rest(void* address, std::size_t block_bytes) {
    open();
    ASAN_UNPOISON_MEMORY_REGION(address, block_bytes);
    {
      const std::lock_guard lock(mutex_);
      const auto* bytes = static_cast<unsigned char*>(address);
      for (std::size_t i = blocks_[static_cast<char*>(address)].used; i < block_bytes; ++i)
        if (bytes[i] != kGuard) {
          ++overruns_;
          break;
        }
    }
    ASAN_POISON_MEMORY_REGION(address, block_bytes);
    close();
  }

  std::size_t size_ = std::size_t{16} << 30, taken_ = 0;
  std::int64_t overruns_ = 0;
  std::atomic<bool> closes_after_every_scope_ = false;

 private:
  struct Block {
    std::size_t bytes = 0, used = 0, room = 0;
  };

  DeviceMemory() {
    void* range =
        mmap(nullptr, kRange, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<char*>(range);
  }

  /** Clears the start of a block, because a dry run's kernels do not write the flags and scales
   *  that the host reads. */
  void clear_start(void* address, std::size_t bytes) {
    open();
    ASAN_UNPOISON_MEMORY_REGION(address, bytes);
    std::memset(address, 0, bytes);
    close();
  }

  /** Returns the smallest free range that is large enough, else new addresses. */
  char* find(std::size_t room) {
    if (const auto at = free_.lower_bound(room); at != free_.end() && at->first < 2 * room) {
      char* block = at->second;
      const std::size_t left = at->first - room;
      free_.erase(at);
      if (left > 0) free_.emplace(left, block + room);
      return block;
    }
    if (next_ + room > kRange) return nullptr;
    char* block = base_ + next_;
    next_ += room;
    grow();
    return block;
  }

  /** Extends the range that is opened and closed, a megabyte at a time. */
  void grow() {
    constexpr std::size_t kStep = std::size_t{1} << 20;
    const std::size_t wanted = std::min(kRange, (next_ + kStep - 1) / kStep * kStep);
    if (wanted <= reach_) return;
    // A dry run's memory may exceed what the sanitizer can track with one byte for every eight.
    if (!DryRun::is_on()) ASAN_POISON_MEMORY_REGION(base_ + reach_, wanted - reach_);
    if (!is_closed_) mprotect(base_ + reach_, wanted - reach_, PROT_READ | PROT_WRITE);
    reach_ = wanted;
  }

  void protect(int rights) {
    if (reach_ > 0) mprotect(base_, reach_, rights);
  }

  std::recursive_mutex mutex_;
  char* base_ = nullptr;
  std::size_t next_ = 0, reach_ = 0;
  int depth_ = 0;
  bool is_closed_ = false;
  std::uint64_t closings_ = 0;
  std::map<char*, Block> blocks_;
  std::multimap<std::size_t, char*> free_;
};

}  // namespace

namespace {

std::mutex pinned_mutex;
std::map<const char*, std::size_t>& pinned() {
  static auto& all = *new std::map<const char*, std::size_t>;
  return all;
}
std::size_t pinned_size = std::size_t{16} << 30, pinned_taken = 0;

}  // namespace

void* take_pinned(std::size_t bytes) {
  const std::lock_guard lock(pinned_mutex);
  if (pinned_taken + bytes > pinned_size) return nullptr;
  void* block = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!block) return nullptr;
  pinned()[static_cast<char*>(block)] = bytes;
  pinned_taken += bytes;
  return block;
}
void give_pinned(void* block) noexcept {
  const std::lock_guard lock(pinned_mutex);
  const auto at = pinned().find(static_cast<char*>(block));
  pinned_taken -= at->second;
  pinned().erase(at);
  std::free(block);
}
bool is_pinned_memory(const void* address) {
  const std::lock_guard lock(pinned_mutex);
  const auto* at = static_cast<const char*>(address);
  auto next = pinned().upper_bound(at);
  return next != pinned().begin() && at < std::prev(next)->first + std::prev(next)->second;
}
void set_pinned_size(std::size_t bytes) { pinned_size = bytes; }

MemoryScope::MemoryScope() { DeviceMemory::memory().open(); }
MemoryScope::~MemoryScope() { DeviceMemory::memory().close(); }

void close_memory() { DeviceMemory::memory().close_now(); }
void close_memory_after_scopes(bool every) {
  DeviceMemory::memory().closes_after_every_scope_ = every;
}
bool is_device_memory(const void* address) { return DeviceMemory::memory().holds(address); }
void* take_memory(std::size_t bytes) { return DeviceMemory::memory().take(bytes); }
void give_memory(void* block) noexcept { DeviceMemory::memory().give(block); }
std::size_t memory_taken() { return DeviceMemory::memory().taken_; }
std::size_t memory_size() { return DeviceMemory::memory().size_; }
void set_memory_size(std::size_t bytes) { DeviceMemory::memory().size_ = bytes; }
void mark_used(void* block, std::size_t block_bytes, std::size_t bytes) {
  DeviceMemory::memory().use(block, block_bytes, bytes);
}
void mark_used_as_is(void* block, std::size_t block_bytes) {
  DeviceMemory::memory().use_as_is(block, block_bytes);
}
void mark_unused(void* block, std::size_t block_bytes) {
  DeviceMemory::memory().rest(block, block_bytes);
}
std::int64_t overrun_blocks() { return DeviceMemory::memory().overruns_; }

}  // namespace mezzo::emulator
