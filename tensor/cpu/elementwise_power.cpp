// The CPU kernels of the ops in tensor/elementwise/power.h.
#include "elementwise_instances.h"

namespace mezzo::cpu_kernels {

extern const auto kPowerKernels = all_kernels(op::PowerOps{});

}  // namespace mezzo::cpu_kernels
