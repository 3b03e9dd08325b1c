// Every op has a kernel on the device.
#include <mezzo.h>

#include "../support/catch.h"

using namespace mezzo;

namespace {

/** Whether what a row computes on the CPU it computes on the device as well. */
bool runs_on_device(const OpRow& row) {
  constexpr std::size_t kCpu = 0, kCuda = static_cast<std::size_t>(DeviceKind::cuda);
  return (row.kernel[kCpu] == nullptr || row.kernel[kCuda] != nullptr) &&
         (row.derivative[kCpu] == nullptr || row.derivative[kCuda] != nullptr);
}

}  // namespace

TEST_CASE("every op with a kernel has one on the device", "[gpu]") {
  if (Device::best() == cpu) SKIP_TEST("no CUDA device");
  for (const OpRow* row : all_ops()) {
    INFO(row->traits.name);
    CHECK(runs_on_device(*row));
  }
}
