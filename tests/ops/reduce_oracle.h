// Oracles of ops that work on lines of a tensor: the elements that share their index in all dimensions but some.
// Sees: cases.h.
// Read next: cases_reduce.cpp.
#pragma once

#include "cases.h"

namespace cases {

using Line = std::vector<double>;

/** Number of nonzeros for p = 0, the extreme magnitudes for p = +-infinity. */
double p_norm(const Line& x, double p);

/** For each index of the kept dimensions, in row-major order: the row-major positions of the elements of its line. `dims` empty: all. */
std::vector<std::vector<std::int64_t>> lines_of(const Shape& shape, const std::vector<int>& dims);

/** f of each line of operand 0. */
Oracle reduced_by(const std::vector<int>& dims, bool keepdim, std::function<double(const Line&)> f);

/** Operand 0 with each line replaced by f of it. */
Oracle lines_by(const std::vector<int>& dims, std::function<Line(const Line&)> f);

/** Operand shapes for reductions of 3-D tensors: sizes that fill no vector, sizes of 1, an empty result, long and wide ones. */
const std::vector<std::vector<Shape>>& reduce_shapes();

}  // namespace cases
