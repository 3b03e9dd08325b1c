// What the emulated driver refuses, as a real one does: launches beyond its limits, calls that a
// capture forbids, host memory that changes under a copy.
#include "../emulator/cuda.h"  // first, as the build puts it before a kernel file

#include <mezzo.h>

#include <functional>

#include "../../cuda/kernel.h"
#include "../../tensor/backend.h"
#include "../emulator/streams.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "emulation.h"

using namespace mezzo;
using namespace emulation;
using emulator::Index3;

namespace {

const Device kDevice{DeviceKind::cuda, 0};

__global__ void do_nothing() {}

__global__ void half_wait() {
  if (threadIdx.x < 32) __syncthreads();
}

/** What a launch of these sizes is refused with; empty where it runs. */
std::string refusal(Index3 grid, Index3 block, std::size_t shared = 0) {
  try {
    emulator::launch({"driver_rules.cpp", 1, nullptr}, &do_nothing, grid, block, shared);
  } catch (const CudaError& e) {
    return e.what();
  }
  return "";
}

const Backend& backend() { return *find_backend(DeviceKind::cuda); }
const Queues& queues() { return backend().queues(); }

/** A mark behind what the current queue holds. */
struct Placed {
  Mark mark = queues().make_mark(kDevice, false);
  Placed() { queues().place(mark, kDevice, queues().current(kDevice)); }
  ~Placed() { queues().drop_mark(mark); }
  Placed(const Placed&) = delete;
  Placed& operator=(const Placed&) = delete;
};

/** Makes a call within a capture, which it breaks even where the step catches the error. */
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
  graph.capture(kDevice, [&] { x.fill_(2); });  // the next is as good as ever
  graph.replay();
  CHECK(x.to_vector<int>() == std::vector<int>{2, 2, 2});
}

}  // namespace

TEST_CASE("launches beyond the limits of a device are refused", "[emulator]") {
  constexpr const char* kConfiguration = "kernel launch: invalid configuration argument; got blocks ";
  CHECK(refusal({1, 2, 3}, {32, 4, 8}).empty());
  CHECK(refusal({1, 65535, 1}, {1, 1, 1}).empty());
  CHECK(refusal({1, 1, 1}, {1024, 1, 1}).empty());
  CHECK(refusal({1, 1, 1}, {1, 1, 64}, 48 << 10).empty());
  for (const Index3 grid : {Index3{0, 1, 1}, {1u << 31, 1, 1}, {1, 65536, 1}, {1, 1, 65536}, {1, 0, 1}})
    CHECK(refusal(grid, {32, 1, 1}).find(kConfiguration) == 0);
  for (const Index3 block : {Index3{0, 1, 1}, {1025, 1, 1}, {1, 1, 65}, {32, 33, 1}, {65536, 65536, 1}})
    CHECK(refusal({1, 1, 1}, block).find(kConfiguration) == 0);
  CHECK(refusal({1, 1, 1}, {32, 1, 1}, (48 << 10) + 1).find("kernel launch: invalid argument; got ") == 0);
}

TEST_CASE("a grid of more blocks than a launch can name is refused, not cut", "[emulator]") {
  for (const std::int64_t blocks : {std::int64_t{1} << 31, (std::int64_t{1} << 32) + 1})
    CHECK_THROWS_WITH_AS_TEXT(gpu::launch(&do_nothing, {.blocks = blocks, .threads = 32}, nullptr), CudaError,
                              "kernel launch: a grid of " + std::to_string(blocks) +
                                  " blocks; expected at most 2147483647; called at ");
}

TEST_CASE("what waits for a capture, or asks it, breaks it", "[emulator]") {
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

TEST_CASE("a capture depends on nothing outside, and nothing outside on it", "[emulator]") {
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

TEST_CASE("pageable memory and the legacy stream are no part of a capture", "[emulator]") {
  const Tensor x = ones({4}, {.device = kDevice});
  float host[4];
  check_forbidden("cudaMemcpyAsync: copies of pageable memory are not captured",
                  [&] { backend().copy(x.raw_data(), kDevice, host, cpu, sizeof host, {}); });
  check_forbidden("kernel launch: work for the legacy stream", [] { gpu::launch(&do_nothing, {}, nullptr); });
}

TEST_CASE("what a capture does after a forbidden call fails too", "[emulator]") {
  const Tensor x = ones({4}, {.device = kDevice});
  gpu::Graph graph;
  CHECK_THROWS_WITH_AS_TEXT(graph.capture(kDevice,
                                          [&] {
                                            CHECK_THROWS_AS(queues().synchronize(kDevice), CudaError);
                                            x.fill_(2);
                                          }),
                            CudaError, "kernel launch: operation failed due to a previous error");
  CHECK(x.to_vector<int>() == std::vector<int>(4, 1));
}

TEST_CASE("host memory that changes before its copy is done is a fault", "[emulator]") {
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
  CHECK(fault.find("cudaMemcpyAsync: host memory changed before its copy was done; called at ") == 0);
  const auto change_at_the_end = [&] {
    const emulator::LateWork late;
    const Tensor there = source.to(kDevice, CopyOptions{.non_blocking = true});
    change();
  };
  CHECK(fault_of(change_at_the_end) == fault);
}

TEST_CASE("faults name the place that launched the kernel", "[emulator]") {
  const int line = __LINE__ + 1;
  const std::string fault = fault_of([] { gpu::launch(&half_wait, {.threads = 64}, nullptr); });
  CHECK(fault.find("driver_rules.cpp:" + std::to_string(line) + ": kernel: threads wait in vain") == 0);
}
