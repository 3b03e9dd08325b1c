// Formats numbers for printing, with the fewest digits that distinguish a value from its neighbours
// of the same dtype, up to a limit.
#pragma once

#include <string>
#include <string_view>

#include "../core/dtype.h"

namespace mezzo::detail {

/** Returns "12.5", "3.", "-0.25": with a point, without trailing zeros, at most `precision` digits
 *  after the point. x is finite. */
std::string positional(double x, DType dtype, int precision);

/** Returns "1.25e-07": one digit before the point, at most `precision` after it, at least two in
 *  the exponent. x is finite. */
std::string scientific(double x, DType dtype, int precision);

/** Returns a single number with all its digits: "0.1", "100.0", "1e-05", "nan". */
std::string standing_alone(double x, DType dtype);

}  // namespace mezzo::detail
