// SequencePlan: which sequences run at which step of a recurrent layer, and where their rows lie.
// Sees: recurrent.h; parsed by nvcc too.
// Read next: sequence_plan.cpp, ../cpu/recurrent_plan.h, ../../cuda/kernels/recurrent.h (the users).
#pragma once

#include <vector>

#include "recurrent.h"

namespace mezzo::op {

/** Longest sequences first, so that those running at any time are the first ones; the steps that exist lie packed, time by time. */
class SequencePlan {
 public:
  SequencePlan(std::int64_t steps, std::int64_t batch, const RecurrentAttrs& attrs);

  std::int64_t steps, batch, rows = 0;
  bool full;  // no step is padding: packed rows are the tensor's own

  /** Time of the k-th step to be computed. */
  std::int64_t time(std::int64_t k) const { return reverse_ ? steps - 1 - k : k; }
  /** How many sequences run at a time. */
  std::int64_t active(std::int64_t time) const { return active_[static_cast<std::size_t>(time)]; }
  /** First packed row of a time. */
  std::int64_t offset(std::int64_t time) const { return offset_[static_cast<std::size_t>(time)]; }
  /** Which sequence of the batch is number i here. */
  std::int64_t sequence(std::int64_t i) const { return order_[static_cast<std::size_t>(i)]; }
  /** Row of a time and sequence in the tensor [T, N, ..]. */
  std::int64_t tensor_row(std::int64_t time, std::int64_t i) const { return time * batch + sequence(i); }
  /** Packed row of sequence i at the step computed before `time`, or -1 when that is the initial state. */
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
