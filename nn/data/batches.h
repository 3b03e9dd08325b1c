// Batches: iterates over a data set in batches, with seeded shuffling, prefetching and resumption.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>

#include "../../tensor/core/tensor.h"

namespace mezzo {

/** A batch of samples: inputs x and targets y, of equal size along dimension 0. */
struct Batch {
  /** Inputs. */
  Tensor x, y;  // targets
  /** Returns the number of samples; the last batch of an epoch may have fewer. */
  std::int64_t size() const { return x.size(0); }
};
/** Returns the tensors that casts of module arguments apply to. */
inline auto fields(Batch& b) { return std::tie(b.x, b.y); }

namespace data {

using mezzo::Batch;

/** Options of Dataset::batches(). */
struct BatchOptions {
  std::int64_t size = 64;  // samples in a batch
  bool shuffle = true;     // the order depends on seed and epoch only
  std::uint64_t seed = 0;  // seed of the order
  bool drop_last = false;  // omits the last batch if it is smaller
  /** Number of batches that a thread gathers in advance. With 0, and for a data set on a device,
   *  batches are gathered on demand. */
  std::int64_t prefetch = 2;
  /** Device that the consuming thread copies batches to; unset: the device of the data set. */
  std::optional<Device> device = {};
  /** On machines with a device, gathers CPU batches in pinned memory, so that copies to the device
   *  are asynchronous. */
  bool pin_memory = false;
};

/** A position in the data, sufficient to continue with the same batches after a restart. */
struct Position {
  std::uint64_t seed = 0;   // seed of the order
  std::uint64_t epoch = 0;  // number of completed epochs
  std::int64_t sample = 0;  // number of samples returned in the current epoch
  /** Returns true if all fields are equal. */
  friend bool operator==(const Position&, const Position&) = default;
};

/** The batches of a data set. Each loop `for (const Batch& batch : batches)` is one epoch with its
 *  own order. The order of epoch e is the Fisher-Yates shuffle of 0..n-1 with random numbers of
 *  split(seed, e): for i from n-1 down to 1, position i is swapped with position
 *  uniform_below(i + 1), computed from the 64-bit word i of the first draw. Copies share the
 *  position. Not thread-safe. */
class MZ_API Batches {
 public:
  /** Input iterator over one epoch. It refers to the Batches that begin() was called on. */
  class Iterator {
   public:
    /** The type of the elements. */
    using value_type = Batch;
    /** Required of iterators by the standard library; iterators cannot be subtracted. */
    using difference_type = std::ptrdiff_t;

    /** Returns the current batch, valid until the next increment, begin() or resume(). */
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
   *  prefetch < 0, and drop_last with fewer samples than a batch. */
  Batches(const Tensor& x, const Tensor& y, const BatchOptions& options);

  /** Starts the next epoch, or continues at the position set by resume(). Errors: those of
   *  gathering the batch. */
  Iterator begin();
  /** Returns the end that iterators are compared with. */
  std::default_sentinel_t end() const { return {}; }

  /** Returns the number of batches in an epoch. */
  std::int64_t size() const;
  /** Returns the number of samples in the data set. */
  std::int64_t samples() const;
  /** Returns the options. */
  const BatchOptions& options() const;
  /** Returns the current position; the current batch counts as used. */
  Position position() const;
  /** Makes the next begin() continue at `position`. A loop in progress ends after its current
   *  batch. Errors: ValueError for a sample beyond the data set. */
  void resume(const Position& position);
  /** Throws if resume() would throw, and changes nothing. */
  void check(const Position& position) const;
  /** Returns the number of completed epochs. */
  std::int64_t epoch() const { return static_cast<std::int64_t>(position().epoch); }
  /** Moves to the start of an epoch. Errors: ValueError for a negative number. */
  void set_epoch(std::int64_t epoch);

 private:
  struct State;
  const Batch& current() const;
  void advance();
  bool at_end() const;

  std::shared_ptr<State> state_;
};

}  // namespace data
}  // namespace mezzo
