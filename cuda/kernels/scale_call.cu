// The end of a step whose result stays on the device: counts steps and updates the loss scale, with
// the code that the CPU uses.
#include "../../optim/scale_call.h"
#include "../attach.h"
#include "../runtime/device.h"
#include "kernel.h"

namespace mezzo::gpu {

namespace {

constexpr int kThreads = 256;  // one block

__global__ void __launch_bounds__(kThreads)
    scale_kernel(const __grid_constant__ optim::ScaleCall call) {
  call.step.run(static_cast<int>(threadIdx.x), kThreads);
  __syncthreads();  // all threads have read the flag that the update may reset
  if (threadIdx.x == 0) call.update();
}

}  // namespace

void attach_scale_call() {
  optim::scale_kernel(DeviceKind::cuda) = [](const optim::ScaleCall& call, Device device) {
    launch(&scale_kernel, {.threads = kThreads}, current_stream(device), call);
  };
}

}  // namespace mezzo::gpu
