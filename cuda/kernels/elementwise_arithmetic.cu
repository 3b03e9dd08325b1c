// The CUDA kernels of the ops in tensor/elementwise/arithmetic.h.
#include "../../tensor/elementwise/arithmetic.h"

#include "../attach.h"
#include "elementwise.h"

namespace mezzo::gpu {

void attach_elementwise_arithmetic() { attach_all(op::ArithmeticOps{}); }

}  // namespace mezzo::gpu
