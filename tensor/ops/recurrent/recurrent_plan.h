// SequencePlan: the sequences that run at each step of a recurrent layer, and the positions of
// their rows. Parsed by g++ and by nvcc.
#pragma once

#include <vector>

#include "recurrent.h"

namespace mezzo::op {

/** Sorts sequences by length, longest first, so that those active at a time are the first ones. The
 *  rows of the steps that exist are packed, time by time. */
class SequencePlan {
 public:
  SequencePlan(std::int64_t steps, std::int64_t batch, const RecurrentAttrs& attrs);

  std::int64_t steps, batch, rows = 0;
  bool full;  // no step is padding: the packed rows equal the tensor's rows

  /** Returns the time of the k-th step to be computed. */
  std::int64_t time(std::int64_t k) const { return reverse_ ? steps - 1 - k : k; }
  /** Returns the number of active sequences at a time. */
  std::int64_t active(std::int64_t time) const { return active_[static_cast<std::size_t>(time)]; }
  /** Returns the first packed row of a time. */
  std::int64_t offset(std::int64_t time) const { return offset_[static_cast<std::size_t>(time)]; }
  /** Returns the index in the batch of the i-th longest sequence. */
  std::int64_t sequence(std::int64_t i) const { return order_[static_cast<std::size_t>(i)]; }
  /** Returns the row of a time and sequence in the tensor [T, N, ..]. */
  std::int64_t tensor_row(std::int64_t time, std::int64_t i) const {
    return time * batch + sequence(i);
  }
  /** Returns the packed row of sequence i at the step computed before `time`, or -1 if that is the
   *  initial state. */
  std::int64_t previous_row(std::int64_t time, std::int64_t i) const {
    const std::int64_t before = reverse_ ? time + 1 : time - 1;
    const bool exists = before >= 0 && before < steps && i < active(before);
    return exists ? offset(before) + i : -1;
  }

 private:
  bool reverse_;
  std::vector<std::int64_t> order_, active_, offset_;
};

}  // namespace mezzo::op
