// The CUDA kernels of the ops in tensor/elementwise/rounding.h.
#include "../../tensor/elementwise/rounding.h"

#include "../attach.h"
#include "elementwise.h"

namespace mezzo::gpu {

void attach_elementwise_rounding() { attach_all(op::RoundingOps{}); }

}  // namespace mezzo::gpu
