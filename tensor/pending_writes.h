// PendingWrites: values that are converted first and written later, so that running out of memory
// changes nothing.
// Sees: tensor.h.
// Read next: ../nn/load.cpp, ../amp/master.cpp (who write so).
#pragma once

#include <utility>
#include <vector>

#include "tensor.h"

namespace mezzo {

class MZ_API PendingWrites {
 public:
  /** Converts `value`, of the shape of `to`, to its dtype, device and layout. Errors: OutOfMemory,
   *  DeviceError. */
  void add(const Tensor& to, const Tensor& value);
  /** Writes all values outside the graph. Needs no memory, but for a `to` with gaps between its
   *  elements. */
  void commit() const;

  /** Whether all tensors have the dtype and device that they had. */
  bool fit() const;

  /** Pairs of a tensor and what it will hold. */
  const std::vector<std::pair<Tensor, Tensor>>& all() const { return writes_; }

 private:
  std::vector<std::pair<Tensor, Tensor>> writes_;
};

}  // namespace mezzo
