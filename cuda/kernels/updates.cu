// The CUDA kernels of the optimizer updates, and of the end of checks that no update does, with the
// code that the CPU uses.
#include "updates.h"

#include "../attach.h"

namespace mezzo::gpu {

namespace {

__global__ void __launch_bounds__(1) step_end_kernel(const optim::StepCall __grid_constant__ call) {
  call.run();
}

}  // namespace

void attach_updates() {
#define MZ_ATTACH(Update) attach_update<optim::Update>();
  MZ_FOR_EACH_UPDATE(MZ_ATTACH)
#undef MZ_ATTACH
  optim::step_kernel(DeviceKind::cuda) = [](const optim::StepCall& call, Device device) {
    launch(&step_end_kernel, {.threads = 1}, current_stream(device), call);
  };
}

}  // namespace mezzo::gpu
