#include "batches.h"

#include <utility>

#include "../../tensor/text/log.h"
#include "../../tensor/text/text.h"
#include "dataset.h"
#include "epoch.h"
#include "stream_epoch.h"

namespace mezzo::data {

struct Batches::State {
  State(std::unique_ptr<BatchSource> from, const BatchOptions& with)
      : source(std::move(from)), options(with) {}
  State(const StreamDataset& from, const BatchOptions& with) : stream(from), options(with) {}

  std::shared_ptr<const BatchSource> source;  // null for a stream
  std::optional<StreamDataset> stream;
  std::int64_t samples = 0;  // in an epoch
  BatchOptions options;
  Position position;
  bool begun = false;  // an epoch was started since the position was set
  std::unique_ptr<EpochBase> running;
  Batch current;

  /** Returns the order of an epoch. Errors: ValueError if it has another length than the first. */
  EpochOrder order(const BatchOptions& seeded, std::uint64_t epoch) const {
    EpochOrder out = order_of_epoch(source->size(), seeded, epoch);
    if (static_cast<std::int64_t>(out.indices.size()) != samples)
      fail<ValueError>("batches(sampler)", {.what = "epochs differ in their number of samples",
                                            .got = str(out.indices.size()),
                                            .expected = str(samples)});
    return out;
  }

  /** Returns the number of samples that the batches of all processes at a time count as. */
  std::int64_t step() const {
    return stream ? options.size * options.shard.count
                  : places_from(position.sample, samples, options).all;
  }

  /** Returns the pass that begins at a position. */
  std::unique_ptr<EpochBase> begin(const Position& start) const {
    if (stream)
      return std::make_unique<StreamEpoch>(*stream, start, start.sample / step(), options);
    BatchOptions seeded = options;
    seeded.seed = start.seed;
    return std::make_unique<Epoch>(source, order(seeded, start.epoch), start.sample, seeded);
  }

  /** Makes `next` the current batch, or ends the epoch if it is undefined. */
  void take(Batch next) {
    current = std::move(next);
    if (current.x.defined()) {
      position.sample += step();
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
  if (options.workers < 1) refuse("invalid number of workers", str(options.workers), "at least 1");
  const auto& [index, count] = options.shard;
  if (count < 1 || index < 0 || index >= count)
    refuse("invalid shard", str("index ", index, " of ", count), "an index below the count");
  if (options.exact && options.drop_last)
    refuse("exact and drop_last contradict each other", "both", "one of them");
}

void require_stream(const BatchOptions& options) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // products with it do not overflow
  if (options.sampler) refuse("a stream has its own order", "a sampler", "shuffle_buffer or none");
  if (options.exact) refuse("a stream has no size", "exact", "exact = false");
  if (options.shuffle_buffer < 0)
    refuse("invalid shuffle_buffer", str(options.shuffle_buffer), "at least 0");
  if (options.size > kMost / options.shard.count)
    refuse("invalid batch size", str(options.size), str("at most ", kMost, " for all processes"));
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

Batches::Batches(std::shared_ptr<State> state) : state_(state) {
  State& s = *state_;
  require_valid(s.options);
  s.position.seed = s.options.seed;
  if (s.stream) {
    require_stream(s.options);
    return;
  }
  if (s.options.shuffle_buffer != 0)
    refuse("shuffle_buffer is for streams", str(s.options.shuffle_buffer), "0", "set shuffle");
  s.samples = s.source->size();
  if (s.samples > 0 && s.options.sampler)
    s.samples = static_cast<std::int64_t>(order_of_epoch(s.samples, s.options, 0).indices.size());
  if (s.samples == 0) refuse("the data set is empty", "no samples", "at least one sample");
  require_full_batch(s.samples, s.options);
  report_rest(s.samples, s.options);
}

Batches::Batches(const Tensor& x, const Tensor& y, const BatchOptions& options)
    : Batches(std::make_shared<State>(source_of(x, y), options)) {}

Batches::Batches(const Dataset& set, const BatchOptions& options)
    : Batches(set.x(), set.y(), options) {}

Batches::Batches(const AnyDataset& set, const BatchOptions& options)
    : Batches(std::make_shared<State>(source_of(set, options.collate), options)) {}

Batches::Batches(const StreamDataset& set, const BatchOptions& options)
    : Batches(std::make_shared<State>(set, options)) {}

Batches::Iterator Batches::begin() {
  State& s = *state_;
  Position start = s.position;
  // An epoch that was left early counts as completed.
  if (s.begun && s.running) start = {.seed = start.seed, .epoch = start.epoch + 1};
  std::unique_ptr<EpochBase> next = s.begin(start);
  Batch first = next->next();
  s.running = std::move(next);
  s.position = start;
  s.begun = true;
  s.take(std::move(first));
  return Iterator(this);
}

void Batches::advance() {
  if (state_->running)
    state_->take(state_->running->next());
  else
    state_->current = {};  // resume() ended the epoch
}

const Batch& Batches::current() const { return state_->current; }
bool Batches::at_end() const { return !state_->current.x.defined(); }

std::int64_t Batches::size() const {
  if (state_->stream)
    fail<StateError>("Batches.size", {.what = "a stream has no number of batches",
                                      .hint = "count them in the loop"});
  const std::int64_t n = state_->samples, full = samples_at_once(n, state_->options);
  return n / full + (n % full != 0 && !drops_rest(state_->options));
}

Position Batches::position() const { return state_->position; }

std::int64_t Batches::samples() const { return state_->samples; }
const BatchOptions& Batches::options() const { return state_->options; }

void Batches::check(const Position& position) const {
  if (state_->stream) {
    if (position.sample < 0 || position.sample % state_->step() != 0)
      fail<ValueError>("resume",
                       {.what = "the position is inside a batch",
                        .got = str("sample ", position.sample),
                        .expected = str("a multiple of ", state_->step()),
                        .hint = "use the batch size and the number of processes of that run"});
    return;
  }
  if (position.sample < 0 || position.sample > state_->samples)
    fail<ValueError>("resume", {.what = "the position is outside the data set",
                                .got = str("sample ", position.sample),
                                .expected = str("0..", state_->samples)});
}

void Batches::resume(const Position& position) {
  check(position);
  state_->running.reset();  // but not the current batch: the body of a loop may still refer to it
  state_->position = position;
  state_->begun = false;
}

void Batches::set_epoch(std::int64_t epoch) {
  if (epoch < 0)
    fail<ValueError>("set_epoch", {.what = "the epoch must be non-negative", .got = str(epoch)});
  resume({.seed = state_->position.seed, .epoch = static_cast<std::uint64_t>(epoch)});
}

}  // namespace mezzo::data
