#include "device.h"

#include "error.h"
#include "text.h"

namespace mezzo {

std::string str(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : "cuda:" + str(static_cast<int>(device.index));
}

Device Device::best() { return cpu; }

Device Device::parse(const std::string& text) {
  if (text == "cpu") return cpu;
  if (text == "cuda" || text.starts_with("cuda:"))
    fail<DeviceError>(
        "device",
        {.what = "this build has no CUDA kernels", .got = "\"" + text + "\"", .expected = "\"cpu\""});
  fail<ValueError>(
      "device",
      {.what = "unknown device", .got = "\"" + text + "\"", .expected = "\"cpu\", \"cuda\" or \"cuda:N\""});
}

}  // namespace mezzo
