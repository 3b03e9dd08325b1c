// The CUDA kernels of the ops in tensor/elementwise/selection.h.
#include "../../tensor/elementwise/selection.h"

#include "../attach.h"
#include "elementwise.h"

namespace mezzo::gpu {

void attach_elementwise_selection() { attach_all(op::SelectionOps{}); }

}  // namespace mezzo::gpu
