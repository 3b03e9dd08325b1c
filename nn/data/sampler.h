// Samplers: the order in which an epoch uses the samples of a data set.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "../../tensor/core/macros.h"
#include "../../tensor/random/generator.h"

namespace mezzo::data {

/** Returns the order of an epoch: indices of samples in 0..size-1, of which some may be left out or
 *  used several times. Their number is the same for each epoch. `generator` is that of the seed and
 *  the number of the epoch; with equal generators the order is equal. */
using Sampler =
    std::function<std::vector<std::int64_t>(std::int64_t size, const Generator& generator)>;

/** The order 0, 1, 2, ... */
struct MZ_API SequentialSampler {
  /** Returns the order. */
  std::vector<std::int64_t> operator()(std::int64_t size, const Generator& generator) const;
};

/** A random order. Without replacement it is the Fisher-Yates shuffle of 0..size-1: for i from
 *  size-1 down to 1, position i is swapped with position uniform_below(i + 1), computed from the
 *  64-bit word i of the generator's next draw. If num_samples is larger than the set, further draws
 *  shuffle it again. With replacement, sample i is uniform_below(size) from the 64-bit word i. */
struct MZ_API RandomSampler {
  bool replacement = false;                      // draws each sample from all of them
  std::optional<std::int64_t> num_samples = {};  // in an epoch; unset: as many as the set has

  /** Returns the order. Errors: ValueError for a negative num_samples. */
  std::vector<std::int64_t> operator()(std::int64_t size, const Generator& generator) const;
};

/** Draws sample i with a probability proportional to weights[i], for example to balance classes. */
struct MZ_API WeightedRandomSampler {
  std::vector<double> weights;   // one for each sample of the set, not negative
  std::int64_t num_samples = 0;  // in an epoch
  bool replacement = true;       // false: no sample is drawn twice

  /** Returns the order, as multinomial() draws it from the generator.
   *  Errors: ValueError unless there is one weight for each sample; as multinomial(). */
  std::vector<std::int64_t> operator()(std::int64_t size, const Generator& generator) const;
};

}  // namespace mezzo::data
