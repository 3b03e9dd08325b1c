// PendingWrites: converts values first and writes them later, so that running out of memory changes
// nothing.
#pragma once

#include <utility>
#include <vector>

#include "tensor.h"

namespace mezzo {

/** A list of tensors and the converted values to write into them. */
class MZ_API PendingWrites {
 public:
  /** Converts `value`, which has the shape of `to`, to the dtype, device and layout of `to`, and
   *  adds the pair. Errors: OutOfMemory, DeviceError. */
  void add(const Tensor& to, const Tensor& value);
  /** Writes all values outside the graph. Allocates nothing, unless a `to` has gaps between its
   *  elements. */
  void commit() const;

  /** Returns true if all tensors still have the dtype and device that they had at add(). */
  bool fit() const;

  /** Returns the pairs of a tensor and its value. */
  const std::vector<std::pair<Tensor, Tensor>>& all() const { return writes_; }

 private:
  std::vector<std::pair<Tensor, Tensor>> writes_;
};

}  // namespace mezzo
