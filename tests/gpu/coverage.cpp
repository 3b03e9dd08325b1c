// Every op with a CPU kernel has a device kernel.
#include <mezzo.h>

#include "../support/catch.h"

using namespace mezzo;

namespace {

/** Returns whether the op has a device kernel wherever it has a CPU kernel. */
bool runs_on_device(const OpInfo& info) {
  constexpr std::size_t kCpu = 0, kCuda = static_cast<std::size_t>(DeviceKind::cuda);
  return (info.kernel[kCpu] == nullptr || info.kernel[kCuda] != nullptr) &&
         (info.derivative[kCpu] == nullptr || info.derivative[kCuda] != nullptr);
}

}  // namespace

TEST_CASE("every op with a CPU kernel has one on the device", "[gpu]") {
  if (Device::best() == cpu) SKIP_TEST("no CUDA device");
  for (const OpInfo* info : all_ops()) {
    INFO(info->traits.name);
    CHECK(runs_on_device(*info));
  }
}
