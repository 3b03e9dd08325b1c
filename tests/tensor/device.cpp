// Devices by name where this machine has none beside the CPU; tests/gpu has the rest.
#include <mezzo.h>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

TEST_CASE("a device is named cpu, cuda or cuda:N", "[device]") {
  CHECK(Device::parse("cpu") == cpu);
  for (const char* text : {"", "gpu", "CPU", "cuda:", "cuda:one", "cuda:-1", "cuda:1x", "cuda 1"})
    CHECK_THROWS_WITH_AS_TEXT(Device::parse(text), ValueError, "unknown device");
}

TEST_CASE("the CPU is described by the threads it works with", "[device]") {
  const int threads = num_threads();
  set_num_threads(3);
  CHECK(description(cpu) == "CPU, 3 threads");
  set_num_threads(1);
  CHECK(description(cpu) == "CPU, 1 thread");
  set_num_threads(threads);
}

TEST_CASE("asking for CUDA where there is none says why", "[device]") {
  if (!(Device::best() == cpu)) SKIP_TEST("this machine has a CUDA device");
  CHECK_THROWS_WITH_AS_TEXT(Device::parse("cuda"), DeviceError, "CUDA");
  CHECK_THROWS_WITH_AS_TEXT(description({DeviceKind::cuda, 0}), DeviceError, "CUDA");
  CHECK_THROWS_WITH_AS_TEXT(Device::parse("cuda:1"), DeviceError, "expected \"cpu\"");
  CHECK_THROWS_WITH_AS_TEXT(ones({2}).to({DeviceKind::cuda, 0}), DeviceError, "no such device; got cuda:0");
}
