// The CUDA kernels of the ops in tensor/elementwise/loss_terms.h.
#include "../../tensor/elementwise/loss_terms.h"

#include "../attach.h"
#include "elementwise.h"

namespace mezzo::gpu {

void attach_elementwise_loss_terms() { attach_all(op::LossTermOps{}); }

}  // namespace mezzo::gpu
