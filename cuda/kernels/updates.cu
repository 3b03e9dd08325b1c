// The CUDA kernels of the optimizer updates.
#include "updates.h"

#include "../attach.h"

namespace mezzo::gpu {

void attach_updates() {
#define MZ_ATTACH(Update) attach_update<optim::Update>();
  MZ_FOR_EACH_UPDATE(MZ_ATTACH)
#undef MZ_ATTACH
}

}  // namespace mezzo::gpu
