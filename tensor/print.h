// Tensors as text, laid out as NumPy lays out arrays.
// Sees: tensor.h.
// Read next: print.cpp.
#pragma once

#include <iosfwd>
#include <string>

#include "tensor.h"

namespace mezzo {

struct PrintOptions {
  int precision = 8;              // digits after the point, at most; trailing zeros are never shown
  std::int64_t threshold = 1000;  // more elements than this are summarised by "..."
  std::int64_t edge_items = 3;    // how many are shown at either end of a summarised dimension
  int line_width = 75;            // columns; longer rows wrap
  bool type = true;               // append dtype and shape: "[1. 2.] f32[2]"
};

/** The elements in nested brackets, the columns aligned, followed by dtype and shape (and the device, unless it is the CPU).
 *  Synchronises with the device. Errors: ValueError for negative options. */
MZ_API std::string to_string(const Tensor& x, const PrintOptions& options = {});

/** Writes to_string(x). */
MZ_API std::ostream& operator<<(std::ostream& out, const Tensor& x);

}  // namespace mezzo
