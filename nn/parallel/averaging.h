// Averaging: how DistributedDataParallel turns the sum of the ranks' gradients into their average.
#pragma once

#include "distributed_data_parallel.h"

namespace mezzo::nn {

/** The arithmetic around a sum of gradients, which depends on their dtype alone. */
class Averaging {
 public:
  Averaging(const DistributedDataParallelOptions& options, int ranks)
      : options_(options), ranks_(ranks) {}

  /** Returns true if 16-bit gradients of this dtype are added in f32. */
  bool sums_in_f32(DType dtype) const;
  /** Returns the divisor of gradients before the sum. */
  double predivide(DType dtype) const;
  /** Returns the factor that turns the sum into the average. */
  double factor_after(DType dtype) const;

 private:
  const DistributedDataParallelOptions options_;
  const int ranks_;
};

}  // namespace mezzo::nn
