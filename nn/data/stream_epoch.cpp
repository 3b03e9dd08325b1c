#include "stream_epoch.h"

#include <algorithm>

#include "../../tensor/random/philox.h"
#include "../../tensor/text/text.h"
#include "plain_work.h"

namespace mezzo::data {

namespace {

std::string name_of(const StreamPart& part) {
  return str("batches(epoch ", part.epoch, ", part ", part.index, " of ", part.count, ")");
}

}  // namespace

// ---- PartReader ---------------------------------------------------------------------------------

PartReader::PartReader(const StreamDataset& set, const StreamPart& part,
                       const BatchOptions& options)
    : part_(part),
      stream_(set.open(part)),
      buffer_size_(static_cast<std::size_t>(std::max<std::int64_t>(1, options.shuffle_buffer))) {}

/** Reads a sample of the stream. */
std::optional<Sample> PartReader::read() {
  const auto number = static_cast<std::uint64_t>(read_ * part_.count + part_.index);
  const Generator own = split(generator_of_samples(part_.seed, part_.epoch).seed, number);
  std::optional<Sample> sample =
      read_sample(stream_, own, str(name_of(part_), "(sample ", read_, ")"));
  if (sample)
    ++read_;
  else
    ended_ = true;
  return sample;
}

/** Takes a sample out of the buffer, which is filled before. */
std::optional<PartReader::Numbered> PartReader::draw() {
  while (!ended_ && buffer_.size() < buffer_size_) {
    const std::int64_t number = read_;
    if (std::optional<Sample> sample = read()) buffer_.push_back({number, std::move(*sample)});
  }
  if (buffer_.empty()) return {};
  Generator order =
      split(split(part_.seed, part_.epoch).seed, static_cast<std::uint64_t>(part_.index));
  const PhiloxBlock block = philox_block(order.next_stream(), static_cast<std::uint64_t>(drawn_++));
  std::swap(buffer_[uniform_below(buffer_.size(), block.word[0], block.word[1])], buffer_.back());
  Numbered drawn = std::move(buffer_.back());
  buffer_.pop_back();
  return drawn;
}

/** Draws the samples of the next batch. Returns false if there is none. */
bool PartReader::fill(const BatchOptions& options) {
  while (static_cast<std::int64_t>(pending_.size()) < options.size) {
    std::optional<Numbered> next = draw();
    if (!next) return !pending_.empty() && !options.drop_last;
    pending_.push_back(std::move(*next));
  }
  return true;
}

Batch PartReader::next(const BatchOptions& options) {
  const PlainWork plain;
  if (!fill(options)) return {};
  std::vector<Sample> samples;
  std::vector<std::int64_t> numbers;
  for (const Numbered& each : pending_) {
    samples.push_back(each.sample);
    numbers.push_back(each.number);
  }
  const Batch batch = join_samples(samples, name_of(part_), numbers, options.collate,
                                   options.pin_memory && !(Device::best() == cpu));
  pending_.clear();
  return batch;
}

bool PartReader::skip(const BatchOptions& options) {
  const PlainWork plain;
  const bool any = fill(options);
  pending_.clear();
  return any;
}

// ---- StreamEpoch --------------------------------------------------------------------------------

StreamEpoch::StreamEpoch(const StreamDataset& set, const Position& start, std::int64_t batches,
                         const BatchOptions& options)
    : EpochBase(options) {
  const std::int64_t workers = options.workers;
  for (std::int64_t i = 0; i < workers; ++i)
    lanes_.push_back({PartReader(
        set,
        {start.seed, start.epoch, options.shard.index * workers + i, options.shard.count * workers},
        options)});
  for (Lane& lane : lanes_) open_.push_back(&lane);
  drop_batches(batches);
  if (options.prefetch == 0) return;
  for (Lane* lane : open_)
    threads_.emplace_back([this, lane](const std::stop_token& stop) { run(stop, *lane); });
}

/** Reads the batches before the position in the order in which they were returned. */
void StreamEpoch::drop_batches(std::int64_t batches) {
  while (batches > 0 && !open_.empty()) {
    if (open_[turn_]->reader.skip(options())) {
      --batches;
      ++turn_;
    } else {
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(turn_));
    }
    if (turn_ >= open_.size()) turn_ = 0;
  }
}

StreamEpoch::Made StreamEpoch::make(Lane& lane) const {
  try {
    return {lane.reader.next(options()), {}};
  } catch (...) {
    return {{}, std::current_exception()};
  }
}

/** Returns what the worker's thread has made. */
StreamEpoch::Made StreamEpoch::taken(Lane& lane) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !lane.made.empty(); });
  Made made = std::move(lane.made.front());
  lane.made.pop_front();
  if (made.error) lane.failed = false;
  lock.unlock();
  changed_.notify_all();
  return made;
}

Batch StreamEpoch::gather() {
  while (!open_.empty()) {
    Lane& lane = *open_[turn_];
    Made made = threads_.empty() ? make(lane) : taken(lane);
    if (made.error) std::rethrow_exception(made.error);
    if (made.batch.x.defined())
      ++turn_;
    else
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(turn_));
    if (turn_ >= open_.size()) turn_ = 0;
    if (made.batch.x.defined()) return std::move(made.batch);
  }
  return {};
}

/** Reads batches of a worker in a thread, as long as there is room for them. */
void StreamEpoch::run(const std::stop_token& stop, Lane& lane) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto room = [&] {
      return !lane.failed && static_cast<std::int64_t>(lane.made.size()) < options().prefetch;
    };
    if (!changed_.wait(lock, stop, room) || stop.stop_requested()) return;
    lock.unlock();
    Made made = make(lane);
    lock.lock();
    const bool ends = !made.error && !made.batch.x.defined();
    lane.failed = made.error != nullptr;
    lane.made.push_back(std::move(made));
    changed_.notify_all();
    if (ends) return;
  }
}

}  // namespace mezzo::data
