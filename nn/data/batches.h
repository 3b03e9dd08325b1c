// Batches: a walk over a data set, shuffled by seed, gathered ahead by a thread, resumable.
// Sees: tensor.
// Read next: dataset.h, batches.cpp.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>

#include "../../tensor/tensor.h"

namespace mezzo {

/** Some samples: inputs x and targets y, of equal size along dimension 0. */
struct Batch {
  Tensor x, y;
  std::int64_t size() const { return x.size(0); }
};
inline auto fields(Batch& b) { return std::tie(b.x, b.y); }

namespace data {

using mezzo::Batch;

struct BatchOptions {
  std::int64_t size = 64;
  bool shuffle = true;  // in an order that depends on seed and epoch alone
  std::uint64_t seed = 0;
  bool drop_last = false;  // leave out the last batch where it is smaller
  // Batches that a thread gathers ahead of use; 0, and a data set on a device: each when it is asked for.
  std::int64_t prefetch = 2;
  // Where batches are sent by the thread that takes them; unset: where the data set is.
  std::optional<Device> device = {};
  // Where there is a device: gather what comes from the CPU in pinned memory, so that sending it does not hold up the host.
  bool pin_memory = false;
};

/** Where a run through the data stands: enough to continue with the same batches after a restart. */
struct Position {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;  // how many epochs lie behind
  std::int64_t sample = 0;  // how many samples of the present epoch were handed out
  friend bool operator==(const Position&, const Position&) = default;
};

/** The batches of a data set. Each `for (const Batch& batch : batches)` is one epoch, with an order of its own.
 *  Epoch e is in the order that Fisher and Yates's shuffle makes of 0..n-1 with the numbers of split(seed, e): for i from n-1 down to 1, place i
 *  swaps with uniform_below(i + 1) of the 64-bit word i of the first draw. Copies share the position. Not for use by several threads. */
class MZ_API Batches {
 public:
  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    const Batch& operator*() const { return owner_->current(); }
    const Batch* operator->() const { return &owner_->current(); }
    Iterator& operator++() {
      owner_->advance();
      return *this;
    }
    void operator++(int) { owner_->advance(); }
    bool operator==(std::default_sentinel_t) const { return owner_->at_end(); }

   private:
    friend class Batches;
    explicit Iterator(Batches* owner) : owner_(owner) {}
    Batches* owner_;
  };

  /** x and y row-major. Errors: ValueError for an empty data set, size < 1, prefetch < 0, and drop_last with fewer samples than a batch. */
  Batches(const Tensor& x, const Tensor& y, const BatchOptions& options);

  /** Starts the next epoch, or goes on with the one that resume() named. Errors: whatever making the batch threw. */
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  /** Batches in an epoch. */
  std::int64_t size() const;
  /** Samples in the data set. */
  std::int64_t samples() const;
  const BatchOptions& options() const;
  /** Where the walk stands; the batch at hand counts as used. */
  Position position() const;
  /** The next begin() continues there; a loop in progress ends after its present batch. Errors: ValueError for a sample beyond the data set. */
  void resume(const Position& position);
  /** Throws what resume would, and changes nothing. */
  void check(const Position& position) const;
  /** Number of epochs that lie behind; setting it goes to the start of that epoch. */
  std::int64_t epoch() const { return static_cast<std::int64_t>(position().epoch); }
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
