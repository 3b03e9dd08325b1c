// The CUDA kernels of all variants of SGD.
#include "../attach.h"
#include "updates.h"

namespace mezzo::gpu {

void attach_updates_sgd() { attach_update<optim::SgdUpdate>(); }

}  // namespace mezzo::gpu
