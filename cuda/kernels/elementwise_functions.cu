// The CUDA kernels of the ops in tensor/elementwise/functions.h.
#include "../../tensor/elementwise/functions.h"

#include "../attach.h"
#include "elementwise.h"

namespace mezzo::gpu {

void attach_elementwise_functions() { attach_all(op::FunctionOps{}); }

}  // namespace mezzo::gpu
