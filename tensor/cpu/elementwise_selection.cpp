// The CPU kernels of the ops in tensor/elementwise/selection.h.
#include "elementwise_instances.h"

namespace mezzo::cpu_kernels {

extern const auto kSelectionKernels = all_kernels(op::SelectionOps{});

}  // namespace mezzo::cpu_kernels
