// The CPU kernels of the ops in tensor/elementwise/rounding.h.
#include "elementwise_instances.h"

namespace mezzo::cpu_kernels {

extern const auto kRoundingKernels = all_kernels(op::RoundingOps{});

}  // namespace mezzo::cpu_kernels
