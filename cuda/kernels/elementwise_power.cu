// The CUDA kernels of the ops in tensor/elementwise/power.h.
#include "../../tensor/elementwise/power.h"

#include "../attach.h"
#include "elementwise.h"

namespace mezzo::gpu {

void attach_elementwise_power() { attach_all(op::PowerOps{}); }

}  // namespace mezzo::gpu
