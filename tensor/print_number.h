// Numbers as text for printing: the fewest digits that tell a value from its neighbours of the same dtype, limited in number.
// Sees: dtype.h, half.h.
// Read next: print.cpp.
#pragma once

#include <string>
#include <string_view>

#include "dtype.h"

namespace mezzo::detail {

/** "12.5", "3.", "-0.25": with a point, without trailing zeros, at most `precision` digits after the point. x is finite. */
std::string positional(double x, DType dtype, int precision);

/** "1.25e-07": one digit before the point, at most `precision` after it, at least two in the exponent. x is finite. */
std::string scientific(double x, DType dtype, int precision);

/** A number by itself, every digit of it: "0.1", "100.0", "1e-05", "nan". */
std::string standing_alone(double x, DType dtype);

}  // namespace mezzo::detail
