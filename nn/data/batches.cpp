#include "batches.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "../../autograd/grad_mode.h"
#include "../../autograd/ops/index.h"
#include "../../tensor/random/generator.h"
#include "../../tensor/random/philox.h"
#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"

namespace mezzo::data {

namespace {

using Order = std::vector<std::int64_t>;

/** Returns the order of an epoch: the shuffle that Batches documents, or 0..n-1. */
Order order_of_epoch(std::int64_t n, const BatchOptions& options, std::uint64_t epoch) {
  Order order(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  if (!options.shuffle) return order;
  const PhiloxStream stream = split(options.seed, epoch).next_stream();
  for (std::size_t i = order.size(); i-- > 1;) {
    const PhiloxBlock block = philox_block(stream, i / 2);
    const std::size_t at = 2 * (i % 2);
    std::swap(order[i], order[uniform_below(i + 1, block.word[at], block.word[at + 1])]);
  }
  return order;
}

/** Returns the number of samples in a batch of each process, all together. */
std::int64_t samples_at_once(std::int64_t n, const BatchOptions& options) {
  return std::min(options.size, n) * options.shard.count;  // a larger size could overflow
}

/** Returns whether samples that do not fill a batch of each process are left out. */
bool drops_rest(const BatchOptions& options) {
  return options.drop_last || (options.shard.count > 1 && !options.exact);
}

/** The places in the order of an epoch that a batch consists of. */
struct Places {
  std::int64_t first = 0, count = 0;  // of this process
  std::int64_t all = 0;               // of all processes; 0 at the end of the epoch
};

/** Returns the places of the batches that begin at place `from` of n. They are divided evenly. */
Places places_from(std::int64_t from, std::int64_t n, const BatchOptions& options) {
  const std::int64_t full = samples_at_once(n, options), all = std::min(full, n - from);
  if (all < full && drops_rest(options)) return {};
  const std::int64_t r = options.shard.index, each = all / options.shard.count,
                     more = all % options.shard.count;
  return {from + r * each + std::min(r, more), each + (r < more), all};
}

/** Returns a copy of the rows at `indices`. */
Tensor rows_of(const Tensor& from, std::span<const std::int64_t> indices, bool pinned) {
  Shape shape = from.shape();
  shape[0] = static_cast<std::int64_t>(indices.size());
  const Tensor out = empty_tensor(shape, from.dtype(), cpu, pinned);
  const std::size_t bytes =
      static_cast<std::size_t>(from.numel() / from.size(0)) * item_size(from.dtype());
  const char* source = static_cast<const char*>(from.raw_data());
  char* target = static_cast<char*>(out.raw_data());
  for (std::size_t i = 0; i < indices.size(); ++i)
    std::memcpy(target + i * bytes, source + static_cast<std::size_t>(indices[i]) * bytes, bytes);
  return out;
}

Tensor index_tensor(std::span<const std::int64_t> indices) {
  const Tensor out = empty_tensor({static_cast<std::int64_t>(indices.size())}, DType::i64, cpu);
  std::memcpy(out.raw_data(), indices.data(), indices.size_bytes());
  return out;
}

/** Scope for gathering batches: turns off recording and casts, and does not count memory as
 *  activations. */
struct PlainWork {
  NoGrad no_grad;
  CastScope no_casts{nullptr};
  CategoryScope not_activations{MemoryCategory::other};
};

/** Returns a copy of the rows at `indices`, on the device of the data set. */
Tensor pick(const Tensor& from, std::span<const std::int64_t> indices, bool pinned) {
  const PlainWork plain;
  if (from.device() == cpu) return rows_of(from, indices, pinned);
  return index_select(from, 0, index_tensor(indices).to(from.device()));
}

Tensor sent(const Tensor& x, Device device) {
  const PlainWork plain;
  return x.to(device, {.non_blocking = x.is_pinned()});
}

/** One pass over the data from a given sample. Gathers the batches, with prefetch in a separate
 *  thread. That thread never uses a device, because its work could be recorded into a step that is
 *  being captured on the same stream. The consuming thread copies batches to the device. */
class Epoch {
 public:
  Epoch(Batch all, Order order, std::int64_t from, const BatchOptions& options)
      : all_(std::move(all)), order_(std::move(order)), next_(from), options_(options) {
    if (all_.x.device() != cpu || all_.y.device() != cpu) options_.prefetch = 0;
    if (options_.prefetch > 0)
      thread_ = std::jthread([this](std::stop_token stop) { produce(stop); });
  }

  /** Returns the next batch, or undefined tensors after the last. Errors: those of gathering it. */
  Batch next() {
    const TraceRange range("next batch");
    if (!made_.x.defined()) made_ = options_.prefetch == 0 ? make() : taken();
    if (!made_.x.defined()) return {};
    const Device device = options_.device.value_or(all_.x.device());
    Batch batch{sent(made_.x, device), sent(made_.y, device)};
    made_ = {};
    return batch;
  }

 private:
  /** Returns the next batch of the thread. */
  Batch taken() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || error_; });
    if (ready_.empty()) {
      options_.prefetch = 0;  // the thread has ended, so a retry gathers in this thread
      std::rethrow_exception(std::exchange(error_, nullptr));
    }
    Batch batch = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return batch;
  }

  Batch make() {
    const Places places = places_from(next_, static_cast<std::int64_t>(order_.size()), options_);
    if (places.all == 0) return {};
    const std::span indices(order_.data() + places.first, static_cast<std::size_t>(places.count));
    const bool pinned = options_.pin_memory && !(Device::best() == cpu);
    Batch batch{pick(all_.x, indices, pinned), pick(all_.y, indices, pinned)};
    next_ += places.all;
    return batch;
  }

  /** Runs in the thread. Keeps up to `prefetch` batches ready. An undefined batch ends the epoch.
   */
  void produce(const std::stop_token& stop) {
    try {
      for (bool last = false; !last;) {
        Batch batch = make();
        last = !batch.x.defined();
        std::unique_lock lock(mutex_);
        const auto room = [&] {
          return ready_.size() < static_cast<std::size_t>(options_.prefetch);
        };
        if (!changed_.wait(lock, stop, room)) return;
        ready_.push_back(std::move(batch));
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      changed_.notify_all();
    }
  }

  Batch all_;
  Batch made_;  // gathered but not yet copied to the device, for a retry after OutOfMemory
  Order order_;
  std::int64_t next_;
  BatchOptions options_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Batch> ready_;
  std::exception_ptr error_;
  std::jthread thread_;  // last, so that it is joined before the other members are destroyed
};

}  // namespace

struct Batches::State {
  Batch all;
  BatchOptions options;
  Position position;
  bool begun = false;  // an epoch was started since the position was set
  std::unique_ptr<Epoch> running;
  Batch current;

  /** Makes `next` the current batch, or ends the epoch if it is undefined. */
  void take(Batch next) {
    current = std::move(next);
    if (current.x.defined()) {
      position.sample += places_from(position.sample, all.size(), options).all;
      return;
    }
    running.reset();
    ++position.epoch;
    position.sample = 0;
  }
};

namespace {

[[noreturn]] void refuse(const char* what, const std::string& got, const std::string& expected,
                         const char* hint = "") {
  fail<ValueError>("batches", {.what = what, .got = got, .expected = expected, .hint = hint});
}

void require_valid(const BatchOptions& options) {
  if (options.size < 1) refuse("invalid batch size", str(options.size), "at least 1");
  if (options.prefetch < 0) refuse("invalid prefetch", str(options.prefetch), "at least 0");
  const auto& [index, count] = options.shard;
  if (count < 1 || index < 0 || index >= count)
    refuse("invalid shard", str("index ", index, " of ", count), "an index below the count");
  if (options.exact && options.drop_last)
    refuse("exact and drop_last contradict each other", "both", "one of them");
}

void require_full_batch(std::int64_t n, const BatchOptions& options) {
  if (!drops_rest(options) || n / options.shard.count >= options.size) return;
  if (options.shard.count == 1)
    refuse("no full batch in the data set", str(n, " samples for size ", options.size),
           "at least one full batch with drop_last");
  refuse("no full batch for each process in the data set",
         str(n, " samples for ", options.shard.count, " processes with size ", options.size),
         "at least one full batch for each", "reduce size, or set exact for an evaluation");
}

/** Logs if samples are left out that a process alone would use. */
void report_rest(std::int64_t n, const BatchOptions& options) {
  const std::int64_t rest = n % samples_at_once(n, options);
  if (rest == 0 || options.drop_last || !drops_rest(options)) return;
  log_text(Severity::info,
           str("batches: ", rest, " of ", n, " samples are left out of each epoch, since they do ",
               "not fill a batch of size ", options.size, " for each of ", options.shard.count,
               " processes"));
}

}  // namespace

Batches::Batches(const Tensor& x, const Tensor& y, const BatchOptions& options) {
  require_valid(options);
  if (x.size(0) == 0) refuse("the data set is empty", str(x), "at least one sample");
  require_full_batch(x.size(0), options);
  report_rest(x.size(0), options);
  state_ = std::make_shared<State>();
  state_->all = {x, y};
  state_->options = options;
  state_->position.seed = options.seed;
}

Batches::Iterator Batches::begin() {
  State& s = *state_;
  Position start = s.position;
  // An epoch that was left early counts as completed.
  if (s.begun && s.running) start = {.seed = start.seed, .epoch = start.epoch + 1};
  BatchOptions options = s.options;
  options.seed = start.seed;
  auto next = std::make_unique<Epoch>(s.all, order_of_epoch(s.all.size(), options, start.epoch),
                                      start.sample, options);
  Batch first = next->next();
  s.running = std::move(next);
  s.position = start;
  s.begun = true;
  s.take(std::move(first));
  return Iterator(this);
}

void Batches::advance() {
  if (state_->running) state_->take(state_->running->next());  // else resume() ended the epoch
}

const Batch& Batches::current() const { return state_->current; }
bool Batches::at_end() const { return !state_->current.x.defined(); }

std::int64_t Batches::size() const {
  const std::int64_t n = state_->all.size(), full = samples_at_once(n, state_->options);
  return n / full + (n % full != 0 && !drops_rest(state_->options));
}

Position Batches::position() const { return state_->position; }

std::int64_t Batches::samples() const { return state_->all.size(); }
const BatchOptions& Batches::options() const { return state_->options; }

void Batches::check(const Position& position) const {
  if (position.sample < 0 || position.sample > state_->all.size())
    fail<ValueError>("resume", {.what = "the position is outside the data set",
                                .got = str("sample ", position.sample),
                                .expected = str("0..", state_->all.size())});
}

void Batches::resume(const Position& position) {
  check(position);
  state_->running.reset();
  state_->current = {};
  state_->position = position;
  state_->begun = false;
}

void Batches::set_epoch(std::int64_t epoch) {
  if (epoch < 0)
    fail<ValueError>("set_epoch", {.what = "the epoch must be non-negative", .got = str(epoch)});
  resume({.seed = state_->position.seed, .epoch = static_cast<std::uint64_t>(epoch)});
}

}  // namespace mezzo::data
