// Oracles of ops that work on lines of a tensor: elements that have the same index in all but some
// dimensions.
#pragma once

#include "cases.h"

namespace cases {

using Line = std::vector<double>;

/** Returns the p-norm; for p = 0 the number of nonzeros, for p = +-infinity an extreme magnitude.
 */
double p_norm(const Line& x, double p);

/** Returns the row-major positions of the elements of each line. Lines are in row-major order of
 *  the kept dimensions; an empty `dims` means all dimensions. */
std::vector<std::vector<std::int64_t>> lines_of(const Shape& shape, const std::vector<int>& dims);

/** The oracle that applies f to each line of operand 0. */
Oracle reduced_by(const std::vector<int>& dims, bool keepdim, std::function<double(const Line&)> f);

/** The oracle that replaces each line of operand 0 by f of it. */
Oracle lines_by(const std::vector<int>& dims, std::function<Line(const Line&)> f);

/** Returns shapes for reductions of 3-D tensors: sizes that do not fill a vector, sizes of 1, empty
 *  results, long and wide ones. */
const std::vector<std::vector<Shape>>& reduce_shapes();

}  // namespace cases
