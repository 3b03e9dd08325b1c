// Prints tensors as text, in NumPy's layout.
#pragma once

#include <iosfwd>
#include <string>

#include "../core/tensor.h"

namespace mezzo {

/** Options of to_string(). */
struct PrintOptions {
  int precision = 8;              // maximum digits after the point; trailing zeros are omitted
  std::int64_t threshold = 1000;  // tensors with more elements are summarised by "..."
  std::int64_t edge_items = 3;    // elements shown at each end of a summarised dimension
  int line_width = 75;            // columns; longer rows wrap
  bool type = true;               // append dtype and shape: "[1. 2.] f32[2]"
};

/** Returns the elements in nested brackets with aligned columns, followed by dtype and shape (and
 *  the device, unless it is the CPU). Synchronises with the device. Errors: ValueError for negative
 *  options. */
MZ_API std::string to_string(const Tensor& x, const PrintOptions& options = {});

/** Writes to_string(x). */
MZ_API std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace mezzo
