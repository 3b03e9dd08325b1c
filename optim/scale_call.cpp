#include "scale_call.h"

#include <array>

namespace mezzo::optim {

namespace {

void run_on_cpu(const ScaleCall& call, Device device) {
  if (call.clock.clocks) clock_kernels(device.kind).count(call.clock, device);
  call.run_cell();
}

}  // namespace

ScaleKernels& scale_kernels(DeviceKind kind) {
  static std::array<ScaleKernels, kNumDeviceKinds> kernels{{{&run_on_cpu}}};
  return kernels[static_cast<std::size_t>(kind)];
}

}  // namespace mezzo::optim
