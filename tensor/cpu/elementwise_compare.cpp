// The CPU kernels of the ops in tensor/elementwise/compare.h.
#include "elementwise_instances.h"

namespace mezzo::cpu_kernels {

extern const auto kCompareKernels = all_kernels(op::CompareOps{});

}  // namespace mezzo::cpu_kernels
