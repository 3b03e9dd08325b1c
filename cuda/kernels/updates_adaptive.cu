// The CUDA kernels of the adaptive updates: Adagrad, Adam, LAMB, LARC, NovoGrad.
#include "../attach.h"
#include "updates.h"

namespace mezzo::gpu {

void attach_updates_adaptive() {
  attach_update<optim::AdagradUpdate>();
  attach_update<optim::AdamUpdate>();
  attach_update<optim::LambDirectionUpdate>();
  attach_update<optim::LambStepUpdate>();
  attach_update<optim::LarcUpdate>();
  attach_update<optim::NovoGradNormUpdate>();
  attach_update<optim::NovoGradUpdate>();
}

}  // namespace mezzo::gpu
