#include "caching_allocator.h"

#include <algorithm>
#include <bit>
#include <string>

#include "capture.h"
#include "error.h"
#include "text.h"

namespace mezzo {

namespace {

/** "1.5 GiB (1610612736 bytes)", or just "100 bytes". */
std::string readable(std::int64_t bytes) {
  const std::string exact = std::to_string(bytes) + " bytes";
  if (bytes < 1024) return exact;
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  const auto tenths = static_cast<std::int64_t>(value * 10);
  return str(tenths / 10, '.', tenths % 10, ' ', kUnits[unit], " (", exact, ')');
}

}  // namespace

std::size_t detail::size_class(std::size_t bytes) {
  if (bytes <= 1024) return bytes <= 64 ? 0 : (bytes - 1) / 64;
  const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1)) - 1;
  return 16 * (power - 9) + ((bytes - 1) >> (power - 4)) % 16;
}

std::size_t detail::class_bytes(std::size_t index) {
  if (index < 16) return (index + 1) * 64;
  const std::size_t power = index / 16 + 9;
  return (16 + index % 16 + 1) << (power - 4);
}

Allocator::~Allocator() = default;

CachingAllocator::CachingAllocator(Device device) : device_(device), classes_(detail::kSizeClasses) {}

CachingAllocator::~CachingAllocator() = default;

void* CachingAllocator::allocate(std::size_t bytes, MemoryCategory category) {
  const std::lock_guard lock(mutex_);
  if (fail_in_ > 0 && --fail_in_ == 0) throw_out_of_memory(bytes);
  if (bytes > detail::kLargestBlock) throw_out_of_memory(bytes);
  const std::size_t index = detail::size_class(bytes);
  const bool pooled = fills_pool() && !LastingMemory::wanted();
  void* block = pooled ? take_pooled(index) : take(index);
  if (!block) throw_out_of_memory(bytes);
  ++classes_[index].live;
  if (!pooled) on_reused(block, detail::class_bytes(index), bytes);
  count(bytes, category);
  return block;
}

/** A block of a class from its list, else from the system, else from the system once more after the cache has been given back; or null. */
void* CachingAllocator::take(std::size_t index) {
  const auto block_bytes = static_cast<std::int64_t>(detail::class_bytes(index));
  if (auto& free = classes_[index].free; !free.empty()) {
    void* block = free.back();
    free.pop_back();
    stats_.cached -= block_bytes;
    return block;
  }
  void* block = system_allocate(detail::class_bytes(index));
  if (!block) {
    release_cache();
    block = system_allocate(detail::class_bytes(index));
  }
  if (block) stats_.reserved += block_bytes;
  return block;
}

void CachingAllocator::deallocate(void* block, std::size_t bytes, MemoryCategory category) noexcept {
  if (!block) return;
  const std::lock_guard lock(mutex_);
  const std::size_t index = detail::size_class(bytes);
  uncount(bytes, category);
  --classes_[index].live;
  const bool may_be_pooled = filling_ || !pooled_.empty();
  if (!may_be_pooled || !return_to_pool(block, index)) cache(block, index);
}

void CachingAllocator::cache(void* block, std::size_t index) noexcept {
  const std::size_t block_bytes = detail::class_bytes(index);
  try {
    classes_[index].free.push_back(block);
  } catch (const std::bad_alloc&) {  // no room even to remember it
    system_free(block, block_bytes);
    stats_.reserved -= static_cast<std::int64_t>(block_bytes);
    return;
  }
  stats_.cached += static_cast<std::int64_t>(block_bytes);
  on_cached(block, block_bytes);
}

// ---- pools ----------------------------------------------------------------------------------------------------------------

void CachingAllocator::begin_pool(BlockPool& pool) {
  const std::lock_guard lock(mutex_);
  filling_ = &pool;
  filler_ = std::this_thread::get_id();
}

void CachingAllocator::end_pool() noexcept {
  const std::lock_guard lock(mutex_);
  filling_ = nullptr;
}

void* CachingAllocator::take_pooled(std::size_t index) {
  std::vector<void*>& free = filling_->free[index];
  if (!free.empty()) {
    void* block = free.back();
    free.pop_back();
    return block;
  }
  void* block = take(index);
  if (!block) return nullptr;
  filling_->classes.emplace(block, index);
  pooled_.emplace(block, filling_);
  on_reused(block, detail::class_bytes(index), detail::class_bytes(index));
  return block;
}

bool CachingAllocator::return_to_pool(void* block, std::size_t index) noexcept {
  if (const auto at = pooled_.find(block); at != pooled_.end()) {
    // A block that was freed after the capture waits like one that was freed within: a replay writes to both.
    at->second->free[index].push_back(block);
    return true;
  }
  if (!fills_pool()) return false;
  filling_->kept.emplace_back(block, index);  // the step may have read it
  return true;
}

void CachingAllocator::release_pool(BlockPool& pool) noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [block, index] : pool.classes) pooled_.erase(block);
  for (const auto& [index, blocks] : pool.free)
    for (void* block : blocks) cache(block, index);
  for (const auto& [block, index] : pool.kept) cache(block, index);
  pool = {};
}

// ---- statistics -----------------------------------------------------------------------------------------------------------

void CachingAllocator::count(std::size_t bytes, MemoryCategory category) {
  for (MemoryUse* use : {&stats_.total, &stats_.by_category[static_cast<std::size_t>(category)]}) {
    use->current += static_cast<std::int64_t>(bytes);
    use->peak = std::max(use->peak, use->current);
    ++use->allocations;
  }
}

void CachingAllocator::uncount(std::size_t bytes, MemoryCategory category) {
  stats_.total.current -= static_cast<std::int64_t>(bytes);
  stats_.by_category[static_cast<std::size_t>(category)].current -= static_cast<std::int64_t>(bytes);
}

void CachingAllocator::recategorise(std::size_t bytes, MemoryCategory from, MemoryCategory to) noexcept {
  const std::lock_guard lock(mutex_);
  stats_.by_category[static_cast<std::size_t>(from)].current -= static_cast<std::int64_t>(bytes);
  MemoryUse& use = stats_.by_category[static_cast<std::size_t>(to)];
  use.current += static_cast<std::int64_t>(bytes);
  use.peak = std::max(use.peak, use.current);
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.total.peak = stats_.total.current;
  for (MemoryUse& use : stats_.by_category) use.peak = use.current;
}

void CachingAllocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  release_cache();
}

void CachingAllocator::fail_nth(std::int64_t n) {
  const std::lock_guard lock(mutex_);
  fail_in_ = n;
}

void CachingAllocator::release_cache() noexcept {
  for (std::size_t index = 0; index < classes_.size(); ++index) {
    const std::size_t block_bytes = detail::class_bytes(index);
    for (void* block : classes_[index].free) {
      on_reused(block, block_bytes, block_bytes);
      system_free(block, block_bytes);
      stats_.reserved -= static_cast<std::int64_t>(block_bytes);
    }
    classes_[index].free.clear();
  }
  stats_.cached = 0;
}

void CachingAllocator::throw_out_of_memory(std::size_t bytes) const {
  const SystemMemory memory = system_memory();
  std::string held, largest;
  for (std::size_t i = 0; i < kNumMemoryCategories; ++i) {
    if (stats_.by_category[i].current == 0) continue;
    held += str(held.empty() ? "" : ", ", name(static_cast<MemoryCategory>(i)), ' ',
                readable(stats_.by_category[i].current));
  }
  int listed = 0;
  for (std::size_t index = classes_.size(); index-- > 0 && listed < 5;) {
    for (std::int64_t n = 0; n < classes_[index].live && listed < 5; ++n, ++listed) {
      largest +=
          str(listed == 0 ? "" : ", ", readable(static_cast<std::int64_t>(detail::class_bytes(index))));
    }
  }
  const std::string requested = bytes > detail::kLargestBlock ? std::to_string(bytes) + " bytes"
                                                              : readable(static_cast<std::int64_t>(bytes));
  fail<OutOfMemory>(
      "allocate", {.what = "out of memory on " + str(device_),
                   .got = "a request for " + requested,
                   .expected = "at most the " + readable(memory.free) + " free of " + readable(memory.total),
                   .hint = str("in use: ", held.empty() ? "nothing" : held, "; largest blocks: ",
                               largest.empty() ? "none" : largest, "; a smaller batch needs less")});
}

}  // namespace mezzo
