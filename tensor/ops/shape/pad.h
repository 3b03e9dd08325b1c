// Padding a tensor. ops.h explains the notation and the precision tags.
#pragma once

#include <vector>

#include "../../core/tensor.h"

namespace mezzo {

/** The values of the padding: one value, the elements mirrored about the outermost ones, the
 *  outermost elements, or the elements of the opposite end. */
enum class PadMode : std::uint8_t { constant, reflect, replicate, circular };

/** Options of pad. */
struct PadOptions {
  PadMode mode = PadMode::constant;  // the values of the padding
  double value = 0;                  // in mode constant: the value, rounded to x's dtype
};

/** Returns x with padding[0] elements before and padding[1] elements after its last dimension,
 *  padding[2] and padding[3] around the dimension before it, and so on. A negative number removes
 *  elements; in mode circular it removes them before padding.
 *  Shape: sizes grow by both numbers.
 *  Precision: match, exact.
 *  Gradient: for each element, the sum of g over the positions it was copied to, in f32 (f64),
 *  rounded once.
 *  Errors: ShapeError for an odd number of paddings, more than two per dimension, a negative size,
 *  a reflection not less than the dimension, circular padding greater than the dimension, or a mode
 *  other than constant around an empty dimension. */
MZ_API Tensor pad(const Tensor& x, const std::vector<std::int64_t>& padding,
                  const PadOptions& options = {});

}  // namespace mezzo
