// The CPU kernels of the ops in tensor/elementwise/activation.h.
#include "elementwise_instances.h"

namespace mezzo::cpu_kernels {

extern const auto kActivationKernels = all_kernels(op::ActivationOps{});

}  // namespace mezzo::cpu_kernels
