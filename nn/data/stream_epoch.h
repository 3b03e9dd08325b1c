// StreamEpoch: one pass over the streams of a process. Private to nn/data/.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "epoch.h"
#include "stream_dataset.h"

namespace mezzo::data {

/** Reads one stream: mixes its samples and joins them. */
class PartReader {
 public:
  /** Opens the stream. Errors: those of the data set. */
  PartReader(const StreamDataset& set, const StreamPart& part, const BatchOptions& options);

  /** Returns the next batch, or undefined tensors at the end. Errors: those of the stream, with a
   *  text that names the sample, and of collate; the next call goes on with the samples read before
   *  the error. */
  Batch next(const BatchOptions& options);
  /** Reads the next batch and drops it. Returns false at the end. Errors: as next(). */
  bool skip(const BatchOptions& options);

 private:
  struct Numbered {
    std::int64_t number;
    Sample sample;
  };

  std::optional<Sample> read();
  std::optional<Numbered> draw();
  bool fill(const BatchOptions& options);

  StreamPart part_;
  StreamDataset::Next stream_;
  std::size_t buffer_size_;
  std::vector<Numbered> buffer_;   // to draw samples from
  std::vector<Numbered> pending_;  // of the next batch
  std::int64_t read_ = 0, drawn_ = 0;
  bool ended_ = false;
};

/** One pass over the streams of a process, from a batch on. Batches are those of the workers in
 *  turn, without those whose streams have ended. Each worker has a thread, or with prefetch 0 the
 *  calling thread reads all. */
class StreamEpoch final : public EpochBase {
 public:
  /** Opens the streams, and drops the first batches. Errors: those of the streams. */
  StreamEpoch(const StreamDataset& set, const Position& start, std::int64_t batches,
              const BatchOptions& options);

 protected:
  Device source_device() const override { return cpu; }
  Batch gather() override;

 private:
  /** What a worker has read; no batch and no error at the end of its stream. */
  struct Made {
    Batch batch = {};
    std::exception_ptr error = {};
  };
  struct Lane {
    PartReader reader;
    std::deque<Made> made = {};
    bool failed = false;  // an error is in `made`: the thread waits until it is taken
  };

  Made make(Lane& lane) const;
  Made taken(Lane& lane);
  void run(const std::stop_token& stop, Lane& lane);
  void drop_batches(std::int64_t batches);

  std::deque<Lane> lanes_;   // of the workers
  std::vector<Lane*> open_;  // those that have not ended
  std::size_t turn_ = 0;     // the next of them
  std::mutex mutex_;         // of `made` and `failed`
  std::condition_variable_any changed_;
  std::vector<std::jthread> threads_;  // last, so that they end before the other members
};

}  // namespace mezzo::data
