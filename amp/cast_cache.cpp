#include "cast_cache.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "../autograd/grad_mode.h"
#include "../autograd/node.h"

namespace mezzo::amp {

struct CastCache::State {
  struct Key {
    const TensorImpl* weight;
    DType dtype;
    bool recorded;  // with gradients: its cast is a node of the graph
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct HashKey {
    std::size_t operator()(const Key& key) const {
      return std::hash<const void*>()(key.weight) ^
             (static_cast<std::size_t>(key.dtype) << 1 | (key.recorded ? 1u : 0u));
    }
  };
  struct Entry {
    Tensor weight;
    std::uint32_t version;
    Tensor cast;
  };
  using Entries = std::unordered_map<Key, Entry, HashKey>;

  static Key key_of(const Tensor& weight, DType dtype) {
    return {weight.impl(), dtype, grad_enabled() && weight.requires_grad()};
  }

  /** Nobody but this entry, and the node of its own cast, holds the weight. */
  static bool expired(const Key& key, const Entry& entry) {
    return entry.weight.impl()->owners() <= (key.recorded ? 2 : 1);
  }

  mutable std::mutex mutex;
  Entries entries;
  std::size_t prune_at = 64;
  std::int64_t hits = 0, misses = 0, stale = 0;
};

CastCache::CastCache() : state_(std::make_unique<State>()) {}
CastCache::~CastCache() = default;

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

Tensor CastCache::find(const Tensor& weight, DType dtype) {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->entries.find(State::key_of(weight, dtype));
  if (found == state_->entries.end()) {
    ++state_->misses;
    return {};
  }
  if (found->second.version != weight.version()) {
    ++state_->stale;
    state_->entries.erase(found);
    return {};
  }
  ++state_->hits;
  return found->second.cast;
}

void CastCache::insert(const Tensor& weight, DType dtype, const Tensor& cast) {
  const std::lock_guard lock(state_->mutex);
  if (state_->entries.size() >= state_->prune_at) {
    std::erase_if(state_->entries,
                  [](const auto& entry) { return State::expired(entry.first, entry.second); });
    state_->prune_at = std::max<std::size_t>(64, 2 * state_->entries.size());
  }
  cast.impl()->storage->set_category(MemoryCategory::cast_cache);
  state_->entries.insert_or_assign(State::key_of(weight, dtype),
                                   State::Entry{weight, weight.version(), cast});
}

void CastCache::clear() {
  State::Entries dropped;  // destroyed without the lock: it may end whole graphs
  const std::lock_guard lock(state_->mutex);
  dropped.swap(state_->entries);
  state_->prune_at = 64;
}

CacheReport CastCache::report() const {
  const std::lock_guard lock(state_->mutex);
  CacheReport out{static_cast<std::int64_t>(state_->entries.size()), 0, state_->hits, state_->misses,
                  state_->stale};
  for (const auto& [key, entry] : state_->entries)
    out.bytes += entry.cast.numel() * static_cast<std::int64_t>(item_size(entry.cast.dtype()));
  return out;
}

}  // namespace mezzo::amp
