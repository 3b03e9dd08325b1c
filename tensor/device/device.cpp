#include "device.h"

#include <charconv>
#include <string_view>

#include "../core/error.h"
#include "../text/text.h"
#include "backend.h"
#include "cpu_isa.h"
#include "parallel.h"

namespace mezzo {

std::string str(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : "cuda:" + str(device.index);
}

Device Device::best() {
  const Backend* backend = find_backend(DeviceKind::cuda);
  return backend && backend->device_count() > 0 ? Device{DeviceKind::cuda, 0} : cpu;
}

namespace {

/** Returns the N of "cuda:N"; 0 for "cuda"; -1 for other texts. */
int cuda_index(std::string_view text) {
  if (text == "cuda") return 0;
  if (!text.starts_with("cuda:")) return -1;
  int index = -1;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + 5, end, index);
  return read.ec == std::errc() && read.ptr == end ? index : -1;
}

}  // namespace

Device Device::parse(const std::string& text) {
  if (text == "cpu") return cpu;
  const int index = cuda_index(text);
  if (index < 0)
    fail<ValueError>("device", {.what = "unknown device",
                                .got = "\"" + text + "\"",
                                .expected = "\"cpu\", \"cuda\" or \"cuda:N\""});
  const std::string got = "\"" + text + "\"";
  const int count = require_cuda("device", got).device_count();
  if (index >= count)
    fail<DeviceError>(
        "device",
        {.what = "no such CUDA device", .got = got, .expected = str("an index below ", count)});
  return {DeviceKind::cuda, index};
}

namespace {

const char* words_for(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::baseline: return "";
    case CpuIsa::v3: return "x86-64-v3, ";
    case CpuIsa::v4: return "x86-64-v4, ";
    case CpuIsa::v4_bf16: return "x86-64-v4 with AVX512-BF16, ";
    case CpuIsa::v4_amx: return "x86-64-v4 with AMX-BF16, ";
  }
  return "";
}

}  // namespace

std::string description(Device device) {
  if (device == cpu)
    return str("CPU, ", words_for(cpu_isa()), num_threads(),
               num_threads() == 1 ? " thread" : " threads");
  const int index = Device::parse(str(device)).index;  // throws for an absent device
  return find_backend(DeviceKind::cuda)->description(index);
}

}  // namespace mezzo
