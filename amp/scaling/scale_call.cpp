#include "scale_call.h"

#include <array>

namespace mezzo::amp {

namespace {

void run_on_cpu(const ScaleCall& call, Device device) {
  if (call.clock.clocks) optim::clock_kernels(device.kind).count(call.clock, device);
  call.run_cell();
}

}  // namespace

ScaleKernel& scale_kernel(DeviceKind kind) {
  static std::array<ScaleKernel, kNumDeviceKinds> kernels{&run_on_cpu};
  return kernels[static_cast<std::size_t>(kind)];
}

}  // namespace mezzo::amp
