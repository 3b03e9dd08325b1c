// The CUDA kernels of the ops in tensor/elementwise/compare.h.
#include "../../tensor/elementwise/compare.h"

#include "../attach.h"
#include "elementwise.h"

namespace mezzo::gpu {

void attach_elementwise_compare() { attach_all(op::CompareOps{}); }

}  // namespace mezzo::gpu
