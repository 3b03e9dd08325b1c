// Subset, ConcatDataset and random_split: data sets made of the samples of others.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "any_dataset.h"

namespace mezzo::data {

/** Samples of another data set, selected by their indices. */
class MZ_API Subset {
 public:
  /** Selects samples; an index may stand several times. Errors: IndexError for an index outside the
   *  set. */
  Subset(AnyDataset set, std::vector<std::int64_t> indices);

  /** Returns the number of selected samples. */
  std::int64_t size() const { return static_cast<std::int64_t>(indices_.size()); }
  /** Returns sample indices()[index] of the set. Errors: IndexError; those of the set. */
  Sample get(std::int64_t index) const;
  /** Returns the positions of the selected samples in the set. */
  const std::vector<std::int64_t>& indices() const { return indices_; }

 private:
  AnyDataset set_;
  std::vector<std::int64_t> indices_;
};

/** Several data sets as one, in the given order. */
class MZ_API ConcatDataset {
 public:
  /** Joins data sets. Errors: ValueError for an empty list. */
  explicit ConcatDataset(std::vector<AnyDataset> sets);

  /** Returns the sum of the sizes. */
  std::int64_t size() const { return ends_.back(); }
  /** Returns a sample. Errors: IndexError; those of the set that has it. */
  Sample get(std::int64_t index) const;

 private:
  std::vector<AnyDataset> sets_;
  std::vector<std::int64_t> ends_;  // index after the last sample of each set
};

/** Size of a part of a data set: a number of samples, or a fraction of all. */
using PartSize = std::variant<std::int64_t, double>;

/** Divides a data set into parts at random: in RandomSampler's order with split(seed, 0), the first
 *  samples are in the first part, and so on. The sizes are either all numbers of samples, which add
 *  up to the size of the set, or all fractions, which add up to 1. Fractions are rounded down to
 *  whole samples, and the rest is dealt out one by one from the first part on.
 *  Errors: ValueError for an empty list, for negative sizes, for numbers mixed with fractions, and
 *  for another sum. */
MZ_API std::vector<Subset> random_split(const AnyDataset& set, const std::vector<PartSize>& sizes,
                                        std::uint64_t seed = 0);

}  // namespace mezzo::data
