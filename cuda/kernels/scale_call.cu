// The end of a step whose result stays on the device: counts steps and updates the loss scale, with
// the code that the CPU uses.
#include "../../amp/scaling/scale_call.h"
#include "../attach.h"
#include "../runtime/device.h"
#include "kernel.h"

namespace mezzo::gpu {

namespace {

constexpr int kThreads = 256;

/** Counts a step, by all threads of one block. The final barrier orders all reads of the flag
 *  before it is reset. */
__device__ inline void count(const optim::ClockCall& call) {
  const bool skip = call.found_inf && *call.found_inf != 0;
  for (int i = static_cast<int>(threadIdx.x); i < call.count && !skip; i += kThreads)
    if (call.takes_part(i)) call.clocks[i].advance();
  if (call.record && threadIdx.x == 0) call.record->note(skip, call.limit);
  __syncthreads();
}

__global__ void __launch_bounds__(kThreads)
    count_kernel(const __grid_constant__ optim::ClockCall call) {
  count(call);
}

__global__ void __launch_bounds__(kThreads)
    scale_kernel(const __grid_constant__ amp::ScaleCall call) {
  count(call.clock);
  if (threadIdx.x == 0) call.run_cell();
}

void launch_count(const optim::ClockCall& call, Device device) {
  launch(&count_kernel, {.threads = kThreads}, current_stream(device), call);
}

void launch_scale(const amp::ScaleCall& call, Device device) {
  launch(&scale_kernel, {.threads = kThreads}, current_stream(device), call);
}

}  // namespace

void attach_scale_call() {
  optim::clock_kernels(DeviceKind::cuda) = {&launch_count};
  amp::scale_kernel(DeviceKind::cuda) = &launch_scale;
}

}  // namespace mezzo::gpu
