// Constants and helpers for the values of tensors, which tests of several folders use.
#pragma once

#include <mezzo.h>

#include <limits>
#include <vector>

namespace mezzo::testing {

inline constexpr double kInf = std::numeric_limits<double>::infinity(),
                        kNan = std::numeric_limits<double>::quiet_NaN();

inline constexpr MemoryFormat kLast = MemoryFormat::channels_last, kRows = MemoryFormat::contiguous;

inline std::vector<double> values(const Tensor& x) { return x.to_vector<double>(); }

/** Returns 0, 1, 2, ... in row-major order. */
inline Tensor counting(const Shape& shape, DType dtype = f32) {
  return arange(static_cast<double>(checked_numel(shape, "test")), {.dtype = dtype}).view(shape);
}

}  // namespace mezzo::testing
