#include "epoch.h"

#include <algorithm>
#include <utility>

#include "plain_work.h"

namespace mezzo::data {

namespace {

Tensor sent(const Tensor& x, Device device) {
  const PlainWork plain;
  return x.defined() ? x.to(device, {.non_blocking = x.is_pinned()}) : x;
}

}  // namespace

std::int64_t samples_at_once(std::int64_t n, const BatchOptions& options) {
  return std::min(options.size, n) * options.shard.count;  // a larger size could overflow
}

bool drops_rest(const BatchOptions& options) {
  return options.drop_last || (options.shard.count > 1 && !options.exact);
}

Places places_from(std::int64_t from, std::int64_t n, const BatchOptions& options) {
  const std::int64_t full = samples_at_once(n, options), all = std::min(full, n - from);
  if (all < full && drops_rest(options)) return {};
  const std::int64_t r = options.shard.index, each = all / options.shard.count,
                     more = all % options.shard.count;
  return {from, from + r * each + std::min(r, more), each + (r < more), all};
}

Epoch::Epoch(std::shared_ptr<const BatchSource> source, EpochOrder order, std::int64_t from,
             const BatchOptions& options)
    : EpochBase(options), source_(std::move(source)), order_(std::move(order)), next_(from) {
  if (options.prefetch == 0 || !(source_->device() == cpu)) return;
  // More slots than there are batches would stay unused.
  const auto n = static_cast<std::int64_t>(order_.indices.size());
  const std::int64_t batches = (n - from) / samples_at_once(n, options) + 1,
                     workers = std::min(options.workers, batches),
                     each = std::min(options.prefetch, batches / workers + 1);
  slots_.resize(static_cast<std::size_t>(workers * each));
  for (std::int64_t i = 0; i < workers; ++i)
    threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
}

Batch EpochBase::next() {
  const TraceRange range("next batch");
  if (!made_.x.defined()) made_ = gather();
  if (!made_.x.defined()) return {};
  const Device device = options_.device.value_or(source_device());
  Batch batch{sent(made_.x, device), sent(made_.y, device)};
  made_ = {};
  return batch;
}

/** Returns the places of the next batch to gather. */
Places Epoch::places() const {
  return places_from(next_, static_cast<std::int64_t>(order_.indices.size()), options());
}

Batch Epoch::gathered(const Places& places) const {
  const bool pinned = options().pin_memory && !(Device::best() == cpu);
  return source_->gather(order_, places.first, places.count, pinned);
}

/** Gathers the next batch in the calling thread. */
Batch Epoch::gather_next() {
  const Places next = places();
  if (next.all == 0) return {};
  Batch batch = gathered(next);
  next_ += next.all;
  return batch;
}

/** Returns the next batch of the threads. */
Batch Epoch::taken() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return taken_ < begun_ ? slot(taken_).done : places().all == 0; });
  if (taken_ == begun_) return {};
  Slot next = std::exchange(slot(taken_), {});
  ++taken_;
  lock.unlock();
  if (next.error) {
    stop_threads();
    next_ = next.places.begin;
    std::rethrow_exception(next.error);
  }
  changed_.notify_all();
  return std::move(next.batch);
}

/** Ends the threads. Further batches are gathered in the calling thread. */
void Epoch::stop_threads() {
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
  slots_.clear();
}

/** Gathers batches in a thread, as long as there is a slot for them. */
void Epoch::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto room = [&] {
      return begun_ - taken_ < static_cast<std::int64_t>(slots_.size()) || places().all == 0;
    };
    if (!changed_.wait(lock, stop, room) || stop.stop_requested()) return;
    const Places next = places();
    if (next.all == 0) {
      changed_.notify_all();  // the epoch may end without a batch
      return;
    }
    next_ += next.all;
    Slot& own = slot(begun_++);
    lock.unlock();
    Slot result{.places = next, .done = true};
    try {
      result.batch = gathered(next);
    } catch (...) {
      result.error = std::current_exception();
    }
    lock.lock();
    own = std::move(result);
    changed_.notify_all();
  }
}

}  // namespace mezzo::data
