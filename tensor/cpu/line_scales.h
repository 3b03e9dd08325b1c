// scaled_lines: the slow way of reductions whose sums leave the range of their type.
#pragma once

#include <optional>
#include <vector>

#include "../core/tensor.h"

namespace mezzo::cpu_kernels {

/** A tensor whose lines over some dimensions are multiplied by powers of two, and these factors,
 *  one per line in row-major order. Both have the compute dtype. */
struct ScaledLines {
  Tensor x, scale;
};

/** Multiplies the lines of x over `dims` that `wanted` names by the power of two that brings their
 *  greatest |x|, or with `by_least` their least, to [1, 4); the others by 1. Returns nothing if
 * this changes no line, as where all are zeros. */
std::optional<ScaledLines> scaled_lines(const Tensor& x, std::uint32_t dims,
                                        const std::vector<char>& wanted, bool by_least = false);

}  // namespace mezzo::cpu_kernels
