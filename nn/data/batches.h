// Batches: iterates over a data set in batches, with seeded shuffling, prefetching and resumption.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>

#include "../../tensor/comm/world.h"
#include "../../tensor/core/pointers.h"
#include "../../tensor/core/tensor.h"
#include "any_dataset.h"
#include "batch.h"
#include "collate.h"
#include "sampler.h"
#include "stream_dataset.h"

namespace mezzo {

namespace data {

class Dataset;

/** Options of Dataset::batches(). */
struct BatchOptions {
  std::int64_t size = 64;  // samples in a batch
  bool shuffle = true;     // the order depends on seed and epoch only
  /** Samples of a StreamDataset that each worker reads in advance, to draw the next one from them
   *  at random; 0: the order of the stream. */
  std::int64_t shuffle_buffer = 0;
  std::uint64_t seed = 0;  // seed of the order
  bool drop_last = false;  // omits the last batch if it is smaller
  /** Which of several processes this one is: world.shard(). All pass equal other options. */
  comm::Shard shard = {};
  /** Several processes return every sample exactly once, for an evaluation, although their last
   *  batches then differ in size; see Batches. */
  bool exact = false;
  /** Number of batches that each worker gathers in advance. With 0, and for a data set on a device,
   *  batches are gathered on demand. */
  std::int64_t prefetch = 2;
  std::int64_t workers = 1;  // threads that gather batches; the batches do not depend on it
  /** Device that the consuming thread copies batches to; unset: the device of the data set. */
  std::optional<Device> device = {};
  /** On machines with a device, gathers CPU batches in pinned memory, so that copies to the device
   *  are asynchronous. */
  bool pin_memory = false;
  Sampler sampler = {};  // the order of each epoch; overrides `shuffle`
  Collate collate = {};  // joins samples; unset: data::collate(). Not used for a Dataset
};

/** A position in the data, sufficient to continue with the same batches after a restart, also by
 *  another number of processes. */
struct Position {
  std::uint64_t seed = 0;   // seed of the order
  std::uint64_t epoch = 0;  // number of completed epochs
  /** Number of samples returned in the current epoch, by all processes. Of a StreamDataset, every
   *  batch counts as a full one. */
  std::int64_t sample = 0;
  /** Returns true if all fields are equal. */
  friend bool operator==(const Position&, const Position&) = default;
};

/** The batches of a data set. Each loop `for (const Batch& batch : batches)` is one epoch with its
 *  own order. The order of epoch e is that of RandomSampler, or of BatchOptions::sampler, with
 *  split(seed, e). Copies share the position. Not thread-safe.
 *
 *  While get() of an AnyDataset returns sample i, the default generator of the thread is one that
 *  depends on (seed, epoch, i) only, so random transforms do not depend on the number of workers or
 *  processes, and resume bit for bit. It is split(split(seed, 2^33 + e).seed, i), and where an
 *  order has i several times, split(..., i + n k) at the place that k places with i precede. An
 *  error of get() is thrown with the same type, if that is an Error of the library, and a text that
 *  names the sample, when its batch is due; the next increment tries again.
 *
 *  N processes that pass their BatchOptions::shard have the same order, of which they use places 0
 *  to N * size - 1 in their first batches, the next N * size in their second, and so on: process r
 *  gets the r-th `size` of them. So the first batches of process 0, 1, ... are the first N batches
 *  of a process alone. All have equally many batches. The rest at the end, fewer than N * size
 *  samples, is left out; the constructor logs it, unless `drop_last` is set. With `exact` the rest
 *  is divided evenly instead: the sizes of these last batches differ by at most one, and where it
 *  has fewer than N samples, some processes get a batch of none, of shape [0, ...].
 *
 *  Of a StreamDataset, each worker of each process reads its own part, and the batches are those of
 *  the workers in turn, without those that have come to their end. So they depend on the number of
 *  workers and processes, and processes may have different numbers of batches. The default
 *  generator in next() for sample i of part k of n is split(split(seed, 2^33 + e).seed, i n + k);
 *  draw j from the `shuffle_buffer` uses word j of split(split(seed, e).seed, k). After an error of
 *  next(), the next increment goes on with the stream. resume() opens the streams again, and reads
 *  and drops the samples before the position. */
class MZ_API Batches {
 public:
  /** Input iterator over one epoch. It refers to the Batches that begin() was called on. */
  class Iterator {
   public:
    /** The type of the elements. */
    using value_type = Batch;
    /** Required of iterators by the standard library; iterators cannot be subtracted. */
    using difference_type = std::ptrdiff_t;

    /** Returns the current batch, valid until the next increment or begin(). */
    const Batch& operator*() const { return owner_->current(); }
    /** Returns a pointer to the current batch. */
    const Batch* operator->() const { return &owner_->current(); }
    /** Gathers the next batch, or ends the epoch. Errors: those of gathering the batch. */
    Iterator& operator++() {
      owner_->advance();
      return *this;
    }
    /** As above, without a result. */
    void operator++(int) { owner_->advance(); }
    /** Returns true at the end of the epoch. */
    bool operator==(std::default_sentinel_t) const { return owner_->at_end(); }

   private:
    friend class Batches;
    explicit Iterator(Batches* owner) : owner_(owner) {}
    Batches* owner_;
  };

  /** Constructs from row-major x and y. Errors: ValueError for an empty data set, size < 1,
   *  prefetch < 0, workers < 1, a shard that does not exist, drop_last with `exact`, and fewer
   *  samples than a batch of each process with drop_last or, without `exact`, with several
   *  processes; those of the sampler. */
  Batches(const Tensor& x, const Tensor& y, const BatchOptions& options);
  /** As set.batches(options). */
  explicit Batches(const Dataset& set, const BatchOptions& options = {});
  /** Constructs from a data set that returns one sample at a time, in CPU tensors. Errors: as
   *  above. */
  explicit Batches(const AnyDataset& set, const BatchOptions& options = {});
  /** Constructs from a data set without a size. Opens the streams when an epoch begins. Errors:
   *  ValueError as above, and for a sampler, `exact`, and a negative shuffle_buffer. */
  explicit Batches(const StreamDataset& set, const BatchOptions& options = {});

  /** Starts the next epoch, or continues at the position set by resume(). Errors: those of
   *  gathering the batch. */
  Iterator begin();
  /** Returns the end that iterators are compared with. */
  std::default_sentinel_t end() const { return {}; }

  /** Returns the number of batches in an epoch, equal in all processes. Errors: StateError for a
   *  StreamDataset. */
  std::int64_t size() const;
  /** Returns the number of samples in an epoch of all processes: that of the data set or, with a
   *  sampler, of its order. 0 for a StreamDataset. */
  std::int64_t samples() const;
  /** Returns what the loader was made with. */
  const BatchOptions& options() const;
  /** Returns the current position; the current batch counts as used. */
  Position position() const;
  /** Makes the next begin() continue at `position`. A loop in progress ends after its current
   *  batch. The position may come from another number of processes or another batch size: the next
   *  batches begin at its place in the order, so no sample is returned twice in the epoch. All
   *  processes pass the same. That of a StreamDataset must come from as many processes and workers
   *  with the same batch size. Errors: ValueError for a sample beyond the data set, or inside a
   *  batch of a StreamDataset. */
  void resume(const Position& position);
  /** Throws if resume() would throw, and changes nothing. */
  void check(const Position& position) const;
  /** Returns the number of completed epochs. */
  std::int64_t epoch() const { return static_cast<std::int64_t>(position().epoch); }
  /** Moves to the start of an epoch. Errors: ValueError for a negative number. */
  void set_epoch(std::int64_t epoch);

 private:
  struct State;
  explicit Batches(std::shared_ptr<State> state);
  const Batch& current() const;
  void advance();
  bool at_end() const;

  Shared<State> state_;
};

}  // namespace data
}  // namespace mezzo
