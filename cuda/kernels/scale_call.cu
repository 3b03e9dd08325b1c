// The end of a step whose result stays on the device: counts steps and updates the loss scale, with
// the code that the CPU uses.
#include "../../amp/scaling/scale.h"
#include "../attach.h"
#include "../runtime/device.h"
#include "kernel.h"

namespace mezzo::gpu {

namespace {

constexpr int kThreads = 256;  // one block

__global__ void __launch_bounds__(kThreads)
    scale_kernel(const __grid_constant__ amp::ScaleCall call) {
  call.step.run(static_cast<int>(threadIdx.x), kThreads);
  __syncthreads();  // all threads have read the flag that the update may reset
  if (threadIdx.x == 0) call.update();
}

}  // namespace

void attach_scale_call() {
  static constexpr auto run = [](const amp::ScaleCall& call, Device device) {
    launch(&scale_kernel, {.threads = kThreads}, current_stream(device), call);
  };
  amp::scale_kernel(DeviceKind::cuda) = run;
  optim::step_kernel(DeviceKind::cuda) = [](const optim::StepCall& step, Device device) {
    run({.step = step}, device);
  };
}

}  // namespace mezzo::gpu
