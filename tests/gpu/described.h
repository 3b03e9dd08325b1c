// Device descriptions for cuDNN, which plans for them without a GPU.
#pragma once

#include <string>

#include "../../cuda/dnn/library.h"
#include "../../tensor/text/text.h"
#include "../support/catch.h"

#define NEED_CUDNN()                             \
  if (!mezzo::gpu::dnn::Library::get().usable()) \
  SKIP_TEST(mezzo::gpu::dnn::Library::get().missing())

namespace described {

/** The device properties that cuDNN uses. The numbers are from NVIDIA's data sheets and the CUDA
 *  programming guide for the compute capability. */
struct Gpu {
  const char* name;
  int capability;  // 10 * major + minor
  std::int64_t processors, shared_memory, l2, memory;
};
inline constexpr Gpu kH200{"NVIDIA H200", 90, 132, 232448, 62914560, 150754820096};
inline constexpr Gpu kA100{"NVIDIA A100-SXM4-80GB", 80, 108, 166912, 41943040, 85899345920};

inline mezzo::gpu::dnn::Descriptor properties(const Gpu& gpu = kH200) {
  const std::string text = mezzo::str(
      R"({"deviceName":")", gpu.name, R"(","deviceVer":)", gpu.capability * 10,
      R"(,"driverVer":13000,"cudaDeviceId":0,"pciDeviceId":0,"multiProcessorCount":)",
      gpu.processors,
      R"(,"warpSize":32,"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)",
      R"("maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"maxCtasPerSM":32,"regsPerBlock":65536,)",
      R"("maxRegistersPerSM":65536,"maxSharedMemoryPerBlock":49152,)"
      R"("maxSharedMemoryPerBlockOptin":)",
      gpu.shared_memory, R"(,"reservedSharedMemoryPerBlock":1024,"l2CacheSize":)", gpu.l2,
      R"(,"totalGlobalMem":)", gpu.memory,
      R"(,"smClockRateKHz":1980000,"memClockRateKHz":3201000,)"
      R"("isTccDriver":0,"supportCoopLaunch":1})");
  mezzo::gpu::dnn::Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
             std::vector<char>(text.begin(), text.end()));
  REQUIRE(device.finalize());
  return device;
}

}  // namespace described
