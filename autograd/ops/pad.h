// Elements around a tensor.
// Sees: tensor.
// Read next: ../../tensor/ops/place.h.
#pragma once

#include <vector>

#include "../../tensor/tensor.h"

namespace mezzo {

/** What stands around a tensor: one value, the elements mirrored about the outermost ones, the outermost ones, or those of the other end. */
enum class PadMode : std::uint8_t { constant, reflect, replicate, circular };

struct PadOptions {
  PadMode mode = PadMode::constant;
  double value = 0;  // of the constant, taken in x's dtype
};

/** x with padding[0] elements before and padding[1] behind its last dimension, padding[2] and padding[3] around the one before it, and so on; a
 *  negative number removes elements, before a circle is closed.
 *  Shape: sizes grow by both numbers.   Precision: follows x, exact.
 *  Gradient: each element's is the sum over the places where it stands, in f32 (f64), rounded once.
 *  Errors: ShapeError for an odd number of paddings, more than two per dimension, a negative size, a reflection that reaches beyond the
 *  other end, a circle longer than the dimension, or a mode other than constant around an empty dimension. */
MZ_API Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding, const PadOptions& options = {});

}  // namespace mezzo
