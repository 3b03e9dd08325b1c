#include "cast_cache.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "../../autograd/node.h"
#include "../../optim/step/tensor_list.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/device/queues.h"
#include "../../tensor/ops/shape/copy.h"

namespace mezzo::amp {

struct CastCache::State {
  struct Key {
    const TensorImpl* weight;
    DType dtype;
    bool recorded;           // with gradients: its cast is a node of the graph
    const Capture* capture;  // the stream capture it belongs to; null for none
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct HashKey {
    std::size_t operator()(const Key& key) const {
      return std::hash<const void*>()(key.weight) ^
             (static_cast<std::size_t>(key.dtype) << 1 | (key.recorded ? 1u : 0u)) ^
             std::hash<const void*>()(key.capture);
    }
  };
  struct Entry {
    Tensor weight;
    std::uint32_t version;
    Tensor cast;
    DeviceQueue writer;
    std::vector<DeviceQueue> readers = {};  // other queues that already wait for the write
    bool is_new = false;

    /** Orders the current queue of this thread after the write of the cast. */
    void share() {
      const DeviceQueue reader = current_queue(cast.device());
      if (reader == writer || std::find(readers.begin(), readers.end(), reader) != readers.end())
        return;
      share_with_current(cast, writer);
      readers.push_back(reader);
    }
  };
  using Entries = std::unordered_map<Key, Entry, HashKey>;

  /** The values of a weight's latest cast, apart from the graph that it was recorded in. */
  struct Values {
    Tensor weight;
    std::uint32_t version;  // of the weight, when the values were those of its cast
    Tensor cast;
    DeviceQueue writer;
    bool is_lent = false;

    bool is_current(DType dtype) const {
      return !is_lent && cast.dtype() == dtype && version == weight.version() &&
             cast.device() == weight.device() && !weight.impl()->storage->is_exposed();
    }
  };

  /** Keeps the values of a cast for lend(), if they may be kept. */
  void keep_values(const Tensor& weight, const Tensor& cast, const DeviceQueue& writer) {
    if (!remembers || Capture::current() || weight.impl()->storage->is_exposed()) return;
    values.insert_or_assign(weight.impl(), Values{weight, weight.version(), cast.detach(), writer});
  }

  static Key key_of(const Tensor& weight, DType dtype) {
    return {weight.impl(), dtype, grad_enabled() && weight.requires_grad(), Capture::current()};
  }

  /** Returns whether only this entry, and the node of its own cast, holds the weight. */
  static bool expired(const Key& key, const Entry& entry) {
    return entry.weight.impl()->owners() <= (key.recorded ? 2 : 1);
  }

  mutable std::mutex mutex;
  Entries entries;
  std::unordered_map<const TensorImpl*, Values> values;
  std::size_t prune_at = 64;
  std::int64_t hits = 0, misses = 0, stale = 0, written = 0;
  bool remembers = false;
  struct Remembered {
    Tensor weight;
    DType dtype;
    DeviceQueue queue;
  };
  std::vector<Remembered> remembered;  // weights on devices, in the order of the last round
  std::vector<Remembered> this_round;
};

CastCache::CastCache() : state_(new State) {}
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

void CastCache::remember_weights() { state_->remembers = true; }

Tensor CastCache::find(const Tensor& weight, DType dtype, bool* is_new) {
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
  found->second.share();
  const bool first_time = std::exchange(found->second.is_new, false);
  ++(first_time ? state_->misses : state_->hits);
  if (is_new) *is_new = first_time;
  return found->second.cast;
}

/** Returns the weight, followed by the weights that were cast in the same queue in the last round,
 *  if this one was among them. Weights of other queues are left out, because only this queue
 *  is ordered after the writes to its weights. */
std::vector<Tensor> CastCache::take_companions(const Tensor& weight, DType dtype) {
  std::vector<Tensor> weights{weight};
  const std::lock_guard lock(state_->mutex);
  if (!state_->remembers || weight.device() == cpu) return weights;
  const DeviceQueue queue = current_queue(weight.device());
  state_->this_round.push_back({weight, dtype, queue});
  const auto is_it = [&](const State::Remembered& r) {
    return r.weight.is_same(weight) && r.dtype == dtype && r.queue == queue;
  };
  if (std::none_of(state_->remembered.begin(), state_->remembered.end(), is_it)) return weights;
  for (const State::Remembered& r : state_->remembered) {
    if (is_it(r) || r.dtype != dtype || r.queue != queue ||
        !(r.weight.device() == weight.device()) || !admits(r.weight, dtype))
      continue;
    if (!same_dense_layout(r.weight, r.weight) ||
        state_->entries.count(State::key_of(r.weight, dtype)) > 0)
      continue;
    if (const auto kept = state_->values.find(r.weight.impl());
        kept != state_->values.end() && kept->second.is_current(dtype))
      continue;
    weights.push_back(r.weight);
    state_->this_round.push_back(r);
  }
  return weights;
}

namespace {

/** Records `cast` as the cast of a weight by an op of its own. */
void record_cast(const Tensor& weight, DType dtype, Tensor& cast) {
  const op::To::Attrs attrs{dtype};
  Tensor in[] = {weight};
  if (grad_enabled() && weight.requires_grad()) record(op_info<op::To>, in, {&cast, 1}, &attrs);
  if (TraceHook* trace = thread_hooks().trace) trace->trace(op_info<op::To>, in, {&cast, 1});
}

/** Casts all weights in one launch and records each as an op of its own. */
std::vector<Tensor> cast_together(const std::vector<Tensor>& weights, DType dtype) {
  const TraceRange range("cast weights");
  std::vector<Tensor> casts;
  std::vector<optim::AxpbyTensors> items;
  for (const Tensor& w : weights) {
    casts.push_back(empty_tensor(w.shape(), dtype, w.device(), false, w.memory_format()));
    items.push_back({w.detach(), {}, casts.back()});
  }
  optim::axpby(items, 1, 0);
  for (std::size_t i = 0; i < weights.size(); ++i) record_cast(weights[i], dtype, casts[i]);
  return casts;
}

}  // namespace

/** Returns a cast with the values that an optimizer has written; undefined if there are none. */
Tensor CastCache::cast_by_update(const Tensor& weight, DType dtype) {
  if (Capture::current()) return {};
  Tensor cast;
  DeviceQueue writer;
  {
    const std::lock_guard lock(state_->mutex);
    const auto kept = state_->values.find(weight.impl());
    if (kept == state_->values.end() || !kept->second.is_current(dtype)) return {};
    cast = kept->second.cast.detach();
    writer = kept->second.writer;
    ++state_->written;
  }
  record_cast(weight, dtype, cast);
  const std::lock_guard lock(state_->mutex);
  State::Entry entry{weight, weight.version(), cast, writer};
  entry.share();
  state_->entries.insert_or_assign(State::key_of(weight, dtype), std::move(entry));
  return cast;
}

Tensor CastCache::cast(const Tensor& weight, DType dtype) {
  if (Tensor written = cast_by_update(weight, dtype); written.defined()) return written;
  const std::vector<Tensor> weights = take_companions(weight, dtype);
  const std::vector<Tensor> casts =
      weights.size() > 1 ? cast_together(weights, dtype) : std::vector{weight.to(dtype)};
  for (std::size_t i = 0; i < weights.size(); ++i) insert(weights[i], dtype, casts[i]);
  const std::lock_guard lock(state_->mutex);
  for (std::size_t i = 1; i < weights.size(); ++i)
    state_->entries.at(State::key_of(weights[i], dtype)).is_new = true;
  return casts[0];
}

void CastCache::insert(const Tensor& weight, DType dtype, const Tensor& cast) {
  const std::lock_guard lock(state_->mutex);
  if (state_->entries.size() >= state_->prune_at) {
    std::erase_if(state_->entries,
                  [](const auto& entry) { return State::expired(entry.first, entry.second); });
    state_->prune_at = std::max<std::size_t>(64, 2 * state_->entries.size());
  }
  cast.impl()->storage->set_category(MemoryCategory::cast_cache);
  if (cast.device() == cpu) cast.impl()->storage->keep_packed();
  const DeviceQueue writer = current_queue(cast.device());
  state_->entries.insert_or_assign(State::key_of(weight, dtype),
                                   State::Entry{weight, weight.version(), cast, writer});
  state_->keep_values(weight, cast, writer);
}

Tensor CastCache::lend(const Tensor& weight) {
  State::Entries dropped;  // destroyed while unlocked: that may destroy whole graphs
  {
    const std::lock_guard lock(state_->mutex);
    const auto kept = state_->values.find(weight.impl());
    if (kept == state_->values.end()) return {};
    for (const bool recorded : {false, true})  // the update makes them stale
      dropped.insert(
          state_->entries.extract({weight.impl(), kept->second.cast.dtype(), recorded, nullptr}));
  }
  dropped.clear();
  const std::lock_guard lock(state_->mutex);
  const auto kept = state_->values.find(weight.impl());
  if (kept == state_->values.end()) return {};
  State::Values& values = kept->second;
  const bool is_used = values.cast.impl()->storage->owners() > 1;
  if (is_used || Capture::current() || !values.is_current(values.cast.dtype()) ||
      !(current_queue(weight.device()) == values.writer)) {
    state_->values.erase(kept);
    return {};
  }
  values.is_lent = true;
  return values.cast;
}

void CastCache::settle(const Tensor& weight) {
  const std::lock_guard lock(state_->mutex);
  const auto kept = state_->values.find(weight.impl());
  if (kept == state_->values.end() || !kept->second.is_lent) return;
  kept->second.version = weight.version();
  kept->second.is_lent = false;
}

void CastCache::end_round() {
  State::Entries dropped;  // destroyed while unlocked: that may destroy whole graphs
  {
    const std::lock_guard lock(state_->mutex);
    dropped.swap(state_->entries);
    state_->prune_at = 64;
    if (!state_->this_round.empty()) state_->remembered = std::exchange(state_->this_round, {});
  }
  dropped.clear();
  const std::lock_guard lock(state_->mutex);
  std::erase_if(state_->values,
                [](const auto& values) { return values.second.weight.impl()->owners() <= 1; });
}

void CastCache::clear() {
  end_round();
  const std::lock_guard lock(state_->mutex);
  state_->values.clear();
}

CacheReport CastCache::report() const {
  const std::lock_guard lock(state_->mutex);
  CacheReport out{static_cast<std::int64_t>(state_->entries.size()),
                  0,
                  state_->hits,
                  state_->misses,
                  state_->stale,
                  state_->written};
  for (const auto& [key, entry] : state_->entries)
    out.bytes += entry.cast.numel() * static_cast<std::int64_t>(item_size(entry.cast.dtype()));
  return out;
}

}  // namespace mezzo::amp
