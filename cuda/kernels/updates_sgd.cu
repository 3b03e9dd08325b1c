// Stochastic gradient descent in all its variants.
#include "../attach.h"
#include "updates.h"

namespace mezzo::gpu {

void attach_sgd_update() { attach_update<optim::SgdUpdate>(); }

}  // namespace mezzo::gpu
