// What the emulated driver rejects, as a real one does: launches beyond its limits, calls that are
// forbidden during capture, host memory that changes during a copy.
#include "../emulator/cuda.h"  // first, as in a kernel file

#include <mezzo.h>

#include <functional>

#include "../../cuda/kernels/kernel.h"
#include "../../cuda/runtime/shared_memory.h"
#include "../../tensor/device/backend.h"
#include "../emulator/streams.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "device.h"
#include "emulation.h"

using namespace mezzo;
using namespace emulation;
using emulator::Index3;
using testing::kDevice;

namespace {

__global__ void do_nothing() {}

__global__ void half_wait() {
  if (threadIdx.x < 32) __syncthreads();
}

/** Returns the error of a launch with these sizes; empty where it runs. */
std::string refusal(Index3 grid, Index3 block, std::size_t shared = 0) {
  try {
    emulator::launch({"driver_rules.cpp", 1, nullptr}, &do_nothing, {grid, block, shared});
  } catch (const CudaError& e) {
    return e.what();
  }
  return "";
}

const Backend& backend() { return *find_backend(DeviceKind::cuda); }
const Queues& queues() { return backend().queues(); }

/** A mark recorded at the end of the current queue. */
struct Placed {
  QueueMark mark = queues().make_mark(kDevice, false);
  Placed() { queues().place(mark, kDevice, queues().current(kDevice)); }
  ~Placed() { queues().drop_mark(mark); }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;
};

/** Makes a forbidden call during a capture, which fails even where the step catches the error. */
void check_forbidden(const char* text, const std::function<void()>& call) {
  INFO(text);
  gpu::Graph graph;
  std::string error;
  CHECK_THROWS_WITH_AS_TEXT(graph.capture(kDevice,
                                          [&] {
                                            try {
                                              call();
                                            } catch (const CudaError& e) {
                                              error = e.what();
                                            }
                                          }),
                            CudaError, "previous error during capture");
  CHECK(error.find(text) != std::string::npos);
  const Tensor x = ones({3}, {.device = kDevice});
  graph.capture(kDevice, [&] { x.fill_(2); });  // the next capture works
  graph.replay();
  CHECK(x.to_vector<int>() == std::vector<int>{2, 2, 2});
}

}  // namespace

TEST_CASE("launches beyond the limits of a device are rejected", "[emulator]") {
  constexpr const char* kConfiguration =
      "kernel launch: invalid configuration argument; got blocks ";
  CHECK(refusal({1, 2, 3}, {32, 4, 8}).empty());
  CHECK(refusal({1, 65535, 1}, {1, 1, 1}).empty());
  CHECK(refusal({1, 1, 1}, {1024, 1, 1}).empty());
  CHECK(refusal({1, 1, 1}, {1, 1, 64}, 48 << 10).empty());
  for (const Index3 grid :
       {Index3{0, 1, 1}, {1u << 31, 1, 1}, {1, 65536, 1}, {1, 1, 65536}, {1, 0, 1}})
    CHECK(refusal(grid, {32, 1, 1}).find(kConfiguration) == 0);
  for (const Index3 block :
       {Index3{0, 1, 1}, {1025, 1, 1}, {1, 1, 65}, {32, 33, 1}, {65536, 65536, 1}})
    CHECK(refusal({1, 1, 1}, block).find(kConfiguration) == 0);
  CHECK(refusal({1, 1, 1}, {32, 1, 1}, (48 << 10) + 1)
            .find("kernel launch: invalid argument; got ") == 0);
}

TEST_CASE("launches with much shared memory ask for it, where a device has it", "[emulator]") {
  const auto allow = [](std::size_t bytes) {
    gpu::runtime::allow_shared(reinterpret_cast<const void*>(&do_nothing), bytes);
  };
  allow(emulator::kMostShared);
  CHECK(refusal({1, 1, 1}, {32, 1, 1}, emulator::kMostShared).empty());
  CHECK(!refusal({1, 1, 1}, {32, 1, 1}, emulator::kMostShared).empty());
  CHECK_THROWS_WITH_AS_TEXT(allow(emulator::kMostShared + 1), CudaError,
                            "cudaFuncSetAttribute: invalid argument; called at ");
  const CapabilityScope turing(75);
  CHECK_THROWS_AS(allow(emulator::kMostShared), CudaError);
}

TEST_CASE("a grid of too many blocks is rejected, not truncated", "[emulator]") {
  for (const std::int64_t blocks : {std::int64_t{1} << 31, (std::int64_t{1} << 32) + 1})
    CHECK_THROWS_WITH_AS_TEXT(gpu::launch(&do_nothing, {.blocks = blocks, .threads = 32}, nullptr),
                              CudaError,
                              "kernel launch: a grid of " + std::to_string(blocks) +
                                  " blocks; expected at most 2147483647; called at ");
}

TEST_CASE("synchronising with a capture or querying it invalidates it", "[emulator]") {
  check_forbidden("cudaStreamSynchronize: operation not permitted when stream is capturing",
                  [] { queues().synchronize(kDevice, queues().current(kDevice)); });
  check_forbidden("cudaDeviceSynchronize: operation not permitted when stream is capturing",
                  [] { queues().synchronize(kDevice); });
  check_forbidden("cudaEventSynchronize: operation not permitted when stream is capturing", [] {
    const Placed within;
    queues().wait_for(within.mark);
  });
  check_forbidden("cudaEventQuery: operation not permitted when stream is capturing", [] {
    const Placed within;
    (void)queues().reached(within.mark);
  });
}

TEST_CASE("a capture has no dependencies on outside work, and outside work none on it",
          "[emulator]") {
  const gpu::Stream side(kDevice);
  const Placed before;
  constexpr const char* kText = "cudaStreamWaitEvent: dependency between captured and other work";
  check_forbidden(kText, [&] { queues().hold(kDevice, queues().current(kDevice), before.mark); });
  check_forbidden(kText, [&] {
    const Placed within;
    queues().hold(kDevice, side.handle(), within.mark);
  });
  gpu::Graph().capture(kDevice, [&] { CHECK(queues().reached(before.mark)); });
}

TEST_CASE("pageable memory and the legacy stream cannot be captured", "[emulator]") {
  const Tensor x = ones({4}, {.device = kDevice});
  float host[4];
  check_forbidden("cudaMemcpyAsync: copies of pageable memory are not captured",
                  [&] { backend().copy(x.raw_data(), kDevice, host, cpu, sizeof host, {}); });
  check_forbidden("kernel launch: work for the legacy stream",
                  [] { gpu::launch(&do_nothing, {}, nullptr); });
}

TEST_CASE("calls after a forbidden call in a capture fail too", "[emulator]") {
  const Tensor x = ones({4}, {.device = kDevice});
  gpu::Graph graph;
  CHECK_THROWS_WITH_AS_TEXT(graph.capture(kDevice,
                                          [&] {
                                            CHECK_THROWS_AS(queues().synchronize(kDevice),
                                                            CudaError);
                                            x.fill_(2);
                                          }),
                            CudaError, "kernel launch: operation failed due to a previous error");
  CHECK(x.to_vector<int>() == std::vector<int>(4, 1));
}

TEST_CASE("changing host memory before its copy is done is a fault", "[emulator]") {
  const Tensor source = ones({300}, {.pin_memory = true});
  auto change = [&, value = 1]() mutable { source.fill_(++value); };
  const auto copy_and_change = [&](bool waits) {
    const emulator::LateWork late;
    const Tensor there = source.to(kDevice, CopyOptions{.non_blocking = true});
    if (waits) gpu::synchronize(kDevice);
    change();
    if (!waits) gpu::synchronize(kDevice);
  };
  CHECK(fault_of([&] { copy_and_change(true); }).empty());
  const std::string fault = fault_of([&] { copy_and_change(false); });
  CHECK(fault.find("cudaMemcpyAsync: host memory changed before its copy was done; called at ") ==
        0);
  const auto change_at_the_end = [&] {
    const emulator::LateWork late;
    const Tensor there = source.to(kDevice, CopyOptions{.non_blocking = true});
    change();
  };
  CHECK(fault_of(change_at_the_end) == fault);
}

TEST_CASE("faults name the source line of the launch", "[emulator]") {
  const int line = __LINE__ + 1;
  const std::string fault = fault_of([] { gpu::launch(&half_wait, {.threads = 64}, nullptr); });
  CHECK(fault.find("driver_rules.cpp:" + std::to_string(line) + ": kernel: deadlock") == 0);
}
