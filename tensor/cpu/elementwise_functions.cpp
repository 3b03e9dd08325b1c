// The CPU kernels of the ops in tensor/elementwise/functions.h.
#include "elementwise_instances.h"

namespace mezzo::cpu_kernels {

extern const auto kFunctionKernels = all_kernels(op::FunctionOps{});

}  // namespace mezzo::cpu_kernels
