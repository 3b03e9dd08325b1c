// The CUDA kernels of the ops in tensor/elementwise/activation.h.
#include "../../tensor/elementwise/activation.h"

#include "../attach.h"
#include "elementwise.h"

namespace mezzo::gpu {

void attach_elementwise_activation() { attach_all(op::ActivationOps{}); }

}  // namespace mezzo::gpu
