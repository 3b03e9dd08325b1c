#include "caching_allocator.h"

#include <algorithm>
#include <bit>
#include <string>

#include "../core/error.h"
#include "../device/capture.h"
#include "../text/text.h"
#include "allocator.h"

namespace mezzo {

namespace {

/** Returns "1.5 GiB (1610612736 bytes)", or "100 bytes" for small numbers. */
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

CachingAllocator::CachingAllocator(Device device, const Queues* queues)
    : device_(device), classes_(detail::kSizeClasses), queues_(queues) {}

CachingAllocator::~CachingAllocator() = default;

void* CachingAllocator::allocate(std::size_t bytes, MemoryCategory category) {
  const std::lock_guard lock(mutex_);
  if (fail_in_ > 0 && --fail_in_ == 0) throw_out_of_memory(bytes);
  if (bytes > detail::kLargestBlock) throw_out_of_memory(bytes);
  if (!waiting_.empty()) collect(false);
  const std::size_t index = detail::size_class(bytes);
  const bool pooled = fills_pool() && !NoCapturePool::wanted();
  void* block = pooled ? take_pooled(index) : take(index);
  if (!block) throw_out_of_memory(bytes);
  ++classes_[index].live;
  if (!pooled) on_reused(block, detail::class_bytes(index), bytes);
  count(bytes, category);
  return block;
}

std::vector<void*>& CachingAllocator::free_list(DeviceQueue queue, std::size_t index) {
  return queue ? side_free_[queue][index] : classes_[index].free;
}

void* CachingAllocator::take(std::size_t index) {
  const auto block_bytes = static_cast<std::int64_t>(detail::class_bytes(index));
  const DeviceQueue queue = home_queue();
  if (auto& free = free_list(queue, index); !free.empty()) {
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
  if (!block) return nullptr;
  stats_.reserved += block_bytes;
  if (queue) block_queues_.emplace(block, queue);
  return block;
}

void CachingAllocator::deallocate(void* block, std::size_t bytes,
                                  MemoryCategory category) noexcept {
  if (!block) return;
  const std::lock_guard lock(mutex_);
  const std::size_t index = detail::size_class(bytes);
  uncount(bytes, category);
  --classes_[index].live;
  const bool may_be_pooled = filling_ || !pooled_.empty();
  if (!may_be_pooled || !return_to_pool(block, index)) retire(block, index);
}

void CachingAllocator::cache(void* block, std::size_t index) noexcept {
  const std::size_t block_bytes = detail::class_bytes(index);
  const auto own = block_queues_.empty() ? block_queues_.end() : block_queues_.find(block);
  try {
    free_list(own == block_queues_.end() ? nullptr : own->second, index).push_back(block);
  } catch (const std::bad_alloc&) {  // no memory for the list entry
    if (own != block_queues_.end()) block_queues_.erase(own);
    system_free(block, block_bytes);
    stats_.reserved -= static_cast<std::int64_t>(block_bytes);
    return;
  }
  stats_.cached += static_cast<std::int64_t>(block_bytes);
  on_cached(block, block_bytes);
}

// ---- blocks that several queues use -------------------------------------------------------------

void CachingAllocator::record_use(void* block, Device device, DeviceQueue queue) {
  if (!queues_) return;
  const std::lock_guard lock(mutex_);
  if (device == device_ && !(device == cpu)) {
    const auto own = block_queues_.find(block);
    if (queue == (own == block_queues_.end() ? nullptr : own->second)) return;
  }
  std::vector<Use>& uses = uses_[block];
  const auto is_known = [&](const Use& use) { return use.device == device && use.queue == queue; };
  if (std::none_of(uses.begin(), uses.end(), is_known)) uses.push_back({device, queue});
}

void CachingAllocator::retire(void* block, std::size_t index) noexcept {
  const auto at = uses_.empty() ? uses_.end() : uses_.find(block);
  if (at == uses_.end()) return cache(block, index);
  waiting_.push_back({block, index, std::move(at->second)});
  uses_.erase(at);
  collect(false);
}

void CachingAllocator::collect(bool wait) noexcept {
  for (std::size_t i = 0; i < waiting_.size();) {
    std::erase_if(waiting_[i].uses, [&](Use& use) { return is_done(use, wait); });
    if (!waiting_[i].uses.empty()) {
      ++i;
      continue;
    }
    cache(waiting_[i].block, waiting_[i].index);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/** Sets the mark of a use at the first call, which comes with deallocate(). For a queue that is
 *  being recorded, a later call sets it. */
bool CachingAllocator::is_done(Use& use, bool wait) const noexcept {
  try {
    if (!use.mark) {
      if (queues_->is_recorded(use.device, use.queue)) return false;
      const QueueMark mark = queues_->make_mark(use.device, false);
      try {
        queues_->place(mark, use.device, use.queue);
      } catch (...) {
        queues_->drop_mark(mark);
        throw;
      }
      use.mark = mark;
    }
    if (!queues_->reached(use.mark)) {
      if (!wait) return false;
      queues_->wait_for(use.mark);
    }
  } catch (const Error&) {
    // The device failed, or is being captured: the block may still be in use.
    return false;
  }
  queues_->drop_mark(use.mark);
  return true;
}

// ---- pools --------------------------------------------------------------------------------------

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
    // A block freed after the capture is kept like one freed during it, since a replay writes to
    // both.
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
    for (void* block : blocks) retire(block, index);
  for (const auto& [block, index] : pool.kept) retire(block, index);
  pool = {};
}

// ---- statistics ---------------------------------------------------------------------------------

void CachingAllocator::count(std::size_t bytes, MemoryCategory category) {
  for (MemoryUse* use : {&stats_.total, &stats_.by_category[static_cast<std::size_t>(category)]}) {
    use->current += static_cast<std::int64_t>(bytes);
    use->peak = std::max(use->peak, use->current);
    ++use->allocations;
  }
  MemoryHook::call(*this, category, static_cast<std::int64_t>(bytes), stats_[category].current);
}

void CachingAllocator::uncount(std::size_t bytes, MemoryCategory category) {
  stats_.total.current -= static_cast<std::int64_t>(bytes);
  stats_.by_category[static_cast<std::size_t>(category)].current -=
      static_cast<std::int64_t>(bytes);
  MemoryHook::call(*this, category, -static_cast<std::int64_t>(bytes), stats_[category].current);
}

void CachingAllocator::recategorise(std::size_t bytes, MemoryCategory from,
                                    MemoryCategory to) noexcept {
  const std::lock_guard lock(mutex_);
  const auto moved = static_cast<std::int64_t>(bytes);
  stats_.by_category[static_cast<std::size_t>(from)].current -= moved;
  MemoryUse& use = stats_.by_category[static_cast<std::size_t>(to)];
  use.current += moved;
  use.peak = std::max(use.peak, use.current);
  MemoryHook::call(*this, from, 0, stats_[from].current);
  MemoryHook::call(*this, to, 0, use.current);
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
  collect(true);
  for (std::size_t index = 0; index < classes_.size(); ++index)
    release(classes_[index].free, index);
  for (auto& [queue, lists] : side_free_)
    for (auto& [index, blocks] : lists) release(blocks, index);
  stats_.cached = 0;
}

void CachingAllocator::release(std::vector<void*>& blocks, std::size_t index) noexcept {
  const std::size_t block_bytes = detail::class_bytes(index);
  for (void* block : blocks) {
    on_reused(block, block_bytes, block_bytes);
    block_queues_.erase(block);
    system_free(block, block_bytes);
    stats_.reserved -= static_cast<std::int64_t>(block_bytes);
  }
  blocks.clear();
}

std::string CachingAllocator::what() const { return str(device_); }

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
      largest += str(listed == 0 ? "" : ", ",
                     readable(static_cast<std::int64_t>(detail::class_bytes(index))));
    }
  }
  const std::string requested = bytes > detail::kLargestBlock
                                    ? std::to_string(bytes) + " bytes"
                                    : readable(static_cast<std::int64_t>(bytes));
  fail<OutOfMemory>(
      "allocate",
      {.what = "out of memory on " + what(),
       .got = "a request for " + requested,
       .expected = "at most the " + readable(memory.free) + " free of " + readable(memory.total),
       .hint = str("in use: ", held.empty() ? "nothing" : held, "; largest blocks: ",
                   largest.empty() ? "none" : largest, "; a smaller batch needs less")});
}

}  // namespace mezzo
