// The CUDA kernels of the optimizer updates, and of the end of a step that no update has done, with
// the code that the CPU uses.
#include "updates.h"

#include "../attach.h"

namespace mezzo::gpu {

namespace {

constexpr int kThreads = 256;  // one block

__global__ void __launch_bounds__(kThreads)
    step_end_kernel(const optim::StepCall __grid_constant__ call) {
  call.count_updates(static_cast<int>(threadIdx.x), kThreads);
  __syncthreads();  // all threads have read the flag that the end may reset
  if (threadIdx.x == 0) call.finish();
}

}  // namespace

void attach_updates() {
#define MZ_ATTACH(Update) attach_update<optim::Update>();
  MZ_FOR_EACH_UPDATE(MZ_ATTACH)
#undef MZ_ATTACH
  optim::step_kernel(DeviceKind::cuda) = [](const optim::StepCall& call, Device device) {
    launch(&step_end_kernel, {.threads = kThreads}, current_stream(device), call);
  };
}

}  // namespace mezzo::gpu
