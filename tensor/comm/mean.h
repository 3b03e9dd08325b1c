// Mean: the mean of numbers that are spread over several processes, for metrics.
#pragma once

#include <cstdint>
#include <utility>

#include "../core/macros.h"
#include "communicator.h"

namespace mezzo::comm {

/** The mean of numbers that the ranks of a group add, such as the accuracy of an evaluation. */
class MZ_API Mean {
 public:
  /** A mean over the ranks of a group; nothing is added yet. */
  explicit Mean(Communicator group) : group_(std::move(group)) {}

  /** Adds `count` numbers of this rank by their sum, for example the number of right answers to
   *  `count` questions. A batch of no samples adds nothing, also where its mean times 0 is NaN.
   *  Errors: ValueError for a negative count, and for a count of 0 with a sum that is neither 0 nor
   *  NaN. */
  void add(double sum, std::int64_t count);

  /** Returns the mean over all ranks; NaN if nothing was added. All ranks call it and get the same
   *  bits. Precision: the ranks' sums are added in f64, in the order of the ranks, and divided
   * once: sums of integers are exact below 2^53. */
  double value() const;

  /** Removes what this rank has added. */
  void reset() { sum_ = count_ = 0; }

 private:
  Communicator group_;
  double sum_ = 0, count_ = 0;  // of this rank
};

}  // namespace mezzo::comm
