// Every op has a kernel on the device.
#include <mezzo.h>

#include <set>
#include <string_view>

#include "../support/catch.h"

using namespace mezzo;

namespace {

// Rows that are being written for the device. A kernel that arrives has to leave the list, so that it ends empty.
const std::set<std::string_view> kNotYet{"recurrent_layer", "recurrent_layer_backward"};

/** Whether what a row computes on the CPU it computes on the device as well. */
bool runs_on_device(const OpRow& row) {
  constexpr std::size_t kCpu = 0, kCuda = static_cast<std::size_t>(DeviceKind::cuda);
  return (row.kernel[kCpu] == nullptr || row.kernel[kCuda] != nullptr) &&
         (row.derivative[kCpu] == nullptr || row.derivative[kCuda] != nullptr);
}

}  // namespace

TEST_CASE("every op with a kernel has one on the device", "[gpu]") {
  if (Device::best() == cpu) SKIP_TEST("no CUDA device");
  std::set<std::string_view> unknown = kNotYet;
  for (const OpRow* row : all_ops()) {
    INFO(row->traits.name);
    CHECK(runs_on_device(*row) == !kNotYet.contains(row->traits.name));
    unknown.erase(row->traits.name);
  }
  CHECK(unknown.empty());
}
