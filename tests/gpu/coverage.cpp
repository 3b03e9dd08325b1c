// Every op with a CPU kernel has a device kernel.
#include <mezzo.h>

#include "../support/catch.h"

using namespace mezzo;

namespace {

/** Returns whether the op has a device kernel wherever it has a CPU kernel. */
bool runs_on_device(const OpInfo& row) {
  constexpr std::size_t kCpu = 0, kCuda = static_cast<std::size_t>(DeviceKind::cuda);
  return (row.kernel[kCpu] == nullptr || row.kernel[kCuda] != nullptr) &&
         (row.derivative[kCpu] == nullptr || row.derivative[kCuda] != nullptr);
}

}  // namespace

TEST_CASE("every op with a CPU kernel has one on the device", "[gpu]") {
  if (Device::best() == cpu) SKIP_TEST("no CUDA device");
  for (const OpInfo* row : all_ops()) {
    INFO(row->traits.name);
    CHECK(runs_on_device(*row));
  }
}
