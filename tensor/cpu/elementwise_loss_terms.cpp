// The CPU kernels of the ops in tensor/elementwise/loss_terms.h.
#include "../elementwise/loss_terms.h"
#include "elementwise_instances.h"

namespace mezzo::cpu_kernels {

extern const auto kLossTermKernels = all_kernels(op::LossTermOps{});

}  // namespace mezzo::cpu_kernels
