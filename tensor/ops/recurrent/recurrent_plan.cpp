#include "recurrent_plan.h"

#include <algorithm>
#include <numeric>

namespace mezzo::op {

SequencePlan::SequencePlan(std::int64_t num_steps, std::int64_t num_sequences,
                           const RecurrentAttrs& attrs)
    : steps(num_steps),
      batch(num_sequences),
      full(true),
      reverse_(attrs.reverse),
      order_(static_cast<std::size_t>(num_sequences)) {
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  const auto length = [&](std::int64_t sequence) {
    return attrs.lengths.empty() ? steps : attrs.lengths[static_cast<std::size_t>(sequence)];
  };
  std::stable_sort(order_.begin(), order_.end(),
                   [&](std::int64_t a, std::int64_t b) { return length(a) > length(b); });
  std::int64_t running = batch;
  for (std::int64_t time = 0; time < steps; ++time) {
    while (running > 0 && length(sequence(running - 1)) <= time) --running;
    full = full && running == batch;
    active_.push_back(running);
    offset_.push_back(rows);
    rows += running;
  }
}

}  // namespace mezzo::op
