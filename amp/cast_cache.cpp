#include "cast_cache.h"

#include <algorithm>

#include "../autograd/grad_mode.h"
#include "../autograd/node.h"

namespace mezzo::amp {

namespace {

bool is_view(const Tensor& x) {
  const GradState* state = find_grad_state(x);
  return state && state->view_base.defined();
}

}  // namespace

bool CastCache::admits(const Tensor& x, DType dtype) {
  const bool weight = x.impl()->is_parameter || (x.requires_grad() && x.is_leaf());
  return weight && x.dtype() == f32 && is_low(dtype) && !is_view(x);
}

CastCache::Key CastCache::key_of(const Tensor& weight, DType dtype) {
  return {weight.impl(), dtype, grad_enabled() && weight.requires_grad()};
}

/** Nobody but this entry, and the node of its own cast, holds the weight. */
bool CastCache::expired(const Key& key, const Entry& entry) {
  return entry.weight.impl()->owners() <= (key.recorded ? 2 : 1);
}

Tensor CastCache::find(const Tensor& weight, DType dtype) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key_of(weight, dtype));
  if (found == entries_.end()) {
    ++misses_;
    return {};
  }
  if (found->second.version != weight.version()) {
    ++stale_;
    entries_.erase(found);
    return {};
  }
  ++hits_;
  return found->second.cast;
}

void CastCache::insert(const Tensor& weight, DType dtype, const Tensor& cast) {
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= prune_at_) {
    std::erase_if(entries_, [](const auto& entry) { return expired(entry.first, entry.second); });
    prune_at_ = std::max<std::size_t>(64, 2 * entries_.size());
  }
  cast.impl()->storage->set_category(MemoryCategory::cast_cache);
  entries_.insert_or_assign(key_of(weight, dtype), Entry{weight, weight.version(), cast});
}

void CastCache::clear() {
  std::unordered_map<Key, Entry, HashKey> dropped;  // destroyed without the lock: it may end whole graphs
  const std::lock_guard lock(mutex_);
  dropped.swap(entries_);
  prune_at_ = 64;
}

CacheReport CastCache::report() const {
  const std::lock_guard lock(mutex_);
  CacheReport out{static_cast<std::int64_t>(entries_.size()), 0, hits_, misses_, stale_};
  for (const auto& [key, entry] : entries_)
    out.bytes += entry.cast.numel() * static_cast<std::int64_t>(item_size(entry.cast.dtype()));
  return out;
}

}  // namespace mezzo::amp
