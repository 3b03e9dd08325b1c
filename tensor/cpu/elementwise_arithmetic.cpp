// The CPU kernels of the ops in tensor/elementwise/arithmetic.h.
#include "elementwise_instances.h"

namespace mezzo::cpu_kernels {

extern const auto kArithmeticKernels = all_kernels(op::ArithmeticOps{});

}  // namespace mezzo::cpu_kernels
