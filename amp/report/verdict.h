// The verdict of a report: sentences about what a precision did to the numbers of a run.
#pragma once

#include <vector>

#include "run_data.h"

namespace mezzo::amp::report {

/** Returns what the figures of a run say, most severe first. README.md states the rules. Kinds:
 *  - underflow: gradients in f16 are so small that rounding to a multiple of 2^-24 changes their
 * sum of magnitudes by more than 1 %, or they are all zero;
 *  - overflow: results or gradients became infinite in 16 bits;
 *  - wrong_tag: an op that is no product overflowed in 16 bits, from operands that are finite;
 *  - lost_update: 16-bit weights without masters did not change although their gradient is not 0;
 *  - fine_in_f16, needs_bf16: of a run in f32, whether a loss scale exists with which f16 does;
 *  - healthy: none of these. */
MZ_API std::vector<Finding> verdict(const RunData& run);

}  // namespace mezzo::amp::report
