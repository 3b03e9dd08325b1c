// bench --ops: the time of single operations, forward and backward (matmul and f16 convolutions:
// forward only), at sizes typical of networks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../common/figure.h"

namespace samples {

/** Returns the names of the operations, in the order of the table. */
std::vector<std::string> op_names();

/** Returns the median milliseconds of `rounds` calls of each operation with the current number of
 *  threads: in f32, or in the dtype that its name ends with; "last" means channels-last. Errors:
 *  UsageError for an unknown name. */
std::vector<Figure> run_ops(const std::vector<std::string>& names, std::int64_t rounds);

}  // namespace samples
