// Dims, the dimensions that a reduction runs over, the options of reductions, and how a loss
// combines its terms.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "dtype.h"
#include "shape.h"

namespace mezzo {

/** The dimensions that a reduction runs over: one, several, or, when empty, all. Negative ones
 *  count from the end. */
class MZ_API Dims {
 public:
  Dims() = default;
  /** Takes one dimension. */
  template <std::integral I> Dims(I dim) {
    items_.push_back(static_cast<std::int64_t>(dim));
  }  // NOLINT
  /** Takes a list of dimensions; an empty one means all. */
  Dims(std::initializer_list<std::int64_t> dims);
  /** Takes a vector of dimensions; an empty one means all. */
  Dims(const std::vector<std::int64_t>& dims);  // NOLINT
  /** Returns the dimensions as they were given. */
  operator std::span<const std::int64_t>() const;  // NOLINT

 private:
  Shape items_;
};

/** Options of sum, mean and prod. */
struct ReduceOptions {
  bool keepdim = false;             // keep reduced dimensions, with size 1
  std::optional<DType> dtype = {};  // convert the input to it first
};

/** Options of reductions that have no other option: all, any, amax, amin, count_nonzero,
 *  logsumexp, max, median, min. */
struct KeepDimOptions {
  bool keepdim = false;  // keep reduced dimensions, with size 1
};

/** Options of norm and vector_norm. */
struct NormOptions {
  double p = 2;                     // order of the norm: any number, infinities included
  bool keepdim = false;             // keep reduced dimensions, with size 1
  std::optional<DType> dtype = {};  // convert the input to it first
};

/** Options of std and var. */
struct VarianceOptions {
  double correction = 1;  // subtracted from the count in the divisor: 1 is the unbiased estimate
  bool keepdim = false;   // keep reduced dimensions, with size 1
};

/** Options of cumprod and cumsum. */
struct ScanOptions {
  std::optional<DType> dtype = {};  // convert the input to it first
};

/** Options of argmax and argmin. */
struct ArgReduceOptions {
  std::optional<std::int64_t> dim = {};  // not given: the whole tensor, indexed in row-major order
  bool keepdim = false;                  // keep the reduced dimension, with size 1
};

/** How a loss combines its terms: one result per term, their sum, their mean, or (kl_div only)
 *  their sum divided by the size of dimension 0. */
enum class Reduction : std::uint8_t { none, sum, mean, batchmean };

}  // namespace mezzo
