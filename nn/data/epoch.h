// Epoch: one pass over a data set, with threads that gather batches in advance. Private to
// nn/data/.
#pragma once

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "batch_source.h"

namespace mezzo::data {

/** The places in the order of an epoch that a batch consists of. */
struct Places {
  std::int64_t begin = 0;             // of all processes
  std::int64_t first = 0, count = 0;  // of this process
  std::int64_t all = 0;               // of all processes; 0 at the end of the epoch
};

/** Returns the number of samples in a batch of each process, all together. */
std::int64_t samples_at_once(std::int64_t n, const BatchOptions& options);

/** Returns whether samples that do not fill a batch of each process are left out. */
bool drops_rest(const BatchOptions& options);

/** Returns the places of the batches that begin at place `from` of n. They are divided evenly. */
Places places_from(std::int64_t from, std::int64_t n, const BatchOptions& options);

/** One pass over the data. The consuming thread copies batches to the device. */
class EpochBase {
 public:
  virtual ~EpochBase() = default;

  /** Returns the next batch, or undefined tensors after the last. Errors: those of gathering it;
   *  the next call tries again. */
  Batch next();

 protected:
  explicit EpochBase(const BatchOptions& options) : options_(options) {}
  /** Returns the next batch on the device of the data. */
  virtual Batch gather() = 0;
  /** Returns the device of the data. */
  virtual Device source_device() const = 0;
  const BatchOptions& options() const { return options_; }

 private:
  BatchOptions options_;
  Batch made_;  // gathered but not yet copied to the device, for a retry after OutOfMemory
};

/** One pass over a data set with a size, from a given place of the order. Gathers the batches, in
 * advance in threads of its own. These never use a device, because their work could be recorded
 * into a step that is being captured on the same stream. Each thread gathers whole batches, which
 * are returned in order, so that their bits do not depend on the number of threads. */
class Epoch final : public EpochBase {
 public:
  /** After an error, batches are gathered in the calling thread. */
  Epoch(std::shared_ptr<const BatchSource> source, EpochOrder order, std::int64_t from,
        const BatchOptions& options);

 protected:
  Batch gather() override { return threads_.empty() ? gather_next() : taken(); }
  Device source_device() const override { return source_->device(); }

 private:
  /** A batch that a thread gathers or has gathered. */
  struct Slot {
    Places places = {};
    Batch batch = {};
    std::exception_ptr error = {};
    bool done = false;
  };

  Places places() const;
  Batch gathered(const Places& places) const;
  Batch gather_next();
  Batch taken();
  Slot& slot(std::int64_t batch) { return slots_[static_cast<std::size_t>(batch) % slots_.size()]; }
  void run(const std::stop_token& stop);
  void stop_threads();

  std::shared_ptr<const BatchSource> source_;
  EpochOrder order_;
  std::mutex mutex_;  // of what follows
  std::condition_variable_any changed_;
  std::int64_t next_;                   // place of the next batch to gather
  std::int64_t begun_ = 0, taken_ = 0;  // numbers of batches
  std::vector<Slot> slots_;             // of batches taken..begun-1
  std::vector<std::jthread> threads_;   // last, so that they end before the other members
};

}  // namespace mezzo::data
