// Device names on a machine without a GPU. See also: ../gpu (tests on a GPU).
#include <mezzo.h>

#include <string>
#include <vector>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

TEST_CASE("a device is named cpu, cuda or cuda:N", "[device]") {
  CHECK(Device::parse("cpu") == cpu);
  for (const char* text : {"", "gpu", "CPU", "cuda:", "cuda:one", "cuda:-1", "cuda:1x", "cuda 1"})
    CHECK_THROWS_WITH_AS_TEXT(Device::parse(text), ValueError, "unknown device");
}

TEST_CASE("a device that does not exist is reported by name", "[device]") {
  const Tensor x = ones({2});
  for (const int index : {-1, 64, 127, 128, 300, 1 << 30}) {
    const Device device{DeviceKind::cuda, index};
    CHECK(str(device) == "cuda:" + std::to_string(index));
    CHECK_THROWS_WITH_AS_TEXT(x.to(device), DeviceError, "got " + str(device));
    CHECK_THROWS_AS(memory_stats(device), DeviceError);
  }
  CHECK_THROWS_AS(x.to(Device{DeviceKind::cpu, 1}), DeviceError);
  CHECK_THROWS_AS(x.to(Device{DeviceKind::cpu, 256}), DeviceError);
}

TEST_CASE("the CPU's description ends with its number of threads", "[device]") {
  const int threads = num_threads();
  set_num_threads(3);
  CHECK(description(cpu).starts_with("CPU, "));
  CHECK(description(cpu).ends_with(", 3 threads"));
  set_num_threads(1);
  CHECK(description(cpu).ends_with(", 1 thread"));
  set_num_threads(threads);
}

TEST_CASE("the error for CUDA on a machine without it gives the reason", "[device]") {
  if (!(Device::best() == cpu)) SKIP_TEST("this machine has a CUDA device");
  CHECK_THROWS_WITH_AS_TEXT(Device::parse("cuda"), DeviceError, "CUDA");
  CHECK_THROWS_WITH_AS_TEXT(description({DeviceKind::cuda, 0}), DeviceError, "CUDA");
  CHECK_THROWS_WITH_AS_TEXT(Device::parse("cuda:1"), DeviceError, "expected \"cpu\"");
}

TEST_CASE("pinned memory and streams throw the same reason, and profiler ranges do nothing",
          "[device]") {
  if (!(Device::best() == cpu)) SKIP_TEST("this machine has a CUDA device");
  std::string words = "nothing was thrown";
  try {
    Device::parse("cuda");
  } catch (const DeviceError& e) {
    words = std::string(e.what()).substr(8);  // after "device: "
    words = words.substr(0, words.find(';'));
  }
  const Tensor x = ones({2});
  CHECK_THROWS_WITH_AS_TEXT(x.to({DeviceKind::cuda, 0}), DeviceError, "allocate: " + words);
  CHECK(!x.is_pinned());
  CHECK_THROWS_WITH_AS_TEXT(x.pin_memory(), DeviceError,
                            "pin_memory: " + words + "; got f32[2]@cpu");
  CHECK_THROWS_WITH_AS_TEXT(empty({2}, {.pin_memory = true}), DeviceError, "pin_memory: " + words);
  CHECK_THROWS_WITH_AS_TEXT(tensor({2.}, {.pin_memory = true}), DeviceError,
                            "pin_memory: " + words);
  CHECK_THROWS_WITH_AS_TEXT(pinned_allocator(), DeviceError, "pin_memory: " + words);
  CHECK_THROWS_WITH_AS_TEXT(gpu::Stream(), DeviceError, "Stream: " + words);
  CHECK_THROWS_WITH_AS_TEXT(gpu::Stream::current({DeviceKind::cuda, 0}), DeviceError,
                            "Stream: " + words);
  CHECK_THROWS_WITH_AS_TEXT(gpu::Event().record(), DeviceError, "Stream: " + words);
  gpu::synchronize(Device::best());
  CHECK(x.to(cpu, {.non_blocking = true}).is_same(x));
  const Tensor y = zeros({2});
  y.copy_(x, {.non_blocking = true});
  CHECK(y.to_vector<int>() == std::vector<int>{1, 1});
  const data::Dataset set(rand({5, 2}), arange(5.0));
  for (const Batch& batch : set.batches({.size = 2, .pin_memory = true}))
    CHECK(!batch.x.is_pinned());
  const gpu::Range range("tests");
  const gpu::emit_nvtx ranges;
  CHECK(sum(x + y).item<int>() == 4);
}
