// bench --ops: the time of single operations as networks use them, forward and backward.
// Sees: figure.h.
// Read next: ops.cpp, ../compare_torch_ops.py (the same shapes in PyTorch).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../common/figure.h"

namespace samples {

/** Names of the operations, in the order of the table. */
std::vector<std::string> op_names();

/** Median milliseconds of `rounds` calls of each operation in f32, with the threads that are set. Errors: UsageError for a name that is none. */
std::vector<Figure> run_ops(const std::vector<std::string>& names, std::int64_t rounds);

}  // namespace samples
