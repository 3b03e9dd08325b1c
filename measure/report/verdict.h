// The verdict of a report: sentences about what a precision did to the numbers of a run.
#pragma once

#include <vector>

#include "run_data.h"

namespace mezzo::amp::report {

/** Returns what the figures of a run say; README.md states the rules and the kinds. Without a
 *  problem or a hint the only finding is "healthy". */
MZ_API std::vector<Finding> verdict(const RunData& run);

}  // namespace mezzo::amp::report
