// Races on shared memory: kernels that lack a barrier are detected in every schedule, correct ones
// are not. Compiled like the kernels of a sanitized emulated device.
#include "../emulator/cuda.h"  // first, as in a kernel file

#include <mezzo.h>

#include "../../cuda/kernels/async_copy.h"
#include "../../cuda/kernels/kernel.h"
#include "../../cuda/kernels/recurrent/group_barrier.h"
#include "../../cuda/kernels/tensor_core.h"
#include "../support/catch.h"
#include "emulation.h"

using namespace mezzo;
using namespace emulation;

namespace {

constexpr int kRaceThreads = 64;

enum class RaceBug { none, missing_barrier, warp_barrier };

/** Computes the next thread's number through shared memory: the last thread of a warp reads what
 *  another warp wrote. */
template <RaceBug bug, class T> __global__ void rotate(T* y) {
  MZ_SHARED(T, numbers, kRaceThreads);
  const auto i = static_cast<int>(threadIdx.x);
  numbers[i] = static_cast<T>(i);
  if (bug == RaceBug::none) __syncthreads();
  if (bug == RaceBug::warp_barrier) __syncwarp();
  y[i] = numbers[(i + 1) % kRaceThreads];
}

/** Within a warp, a warp barrier is enough. */
template <bool has_barrier> __global__ void rotate_in_warps(int* y) {
  MZ_SHARED(int, numbers, kRaceThreads);
  const auto i = static_cast<int>(threadIdx.x);
  numbers[i] = i;
  if (has_barrier) __syncwarp();
  y[i] = numbers[i / 32 * 32 + (i + 1) % 32];
}

/** Sums by halving. Without the barrier a thread adds to what another still reads. */
template <bool has_barrier> __global__ void sum_halves(float* y) {
  MZ_DYNAMIC_SHARED(float, part);
  const auto i = static_cast<int>(threadIdx.x);
  part[i] = 1;
  __syncthreads();
  for (int n = kRaceThreads / 2; n > 0; n /= 2) {
    if (i < n) part[i] += part[i + n];
    if (has_barrier) __syncthreads();
  }
  if (i == 0) *y = part[0];
}

/** Uses one array in two rounds: a fast thread may write in the second what others still read in
 *  the first. */
template <bool has_barrier> __global__ void reuse(int* y) {
  MZ_SHARED(int, number, 1);
  for (int round = 0; round < 2; ++round) {
    if (threadIdx.x == static_cast<unsigned>(round)) number[0] = round;
    __syncthreads();
    y[threadIdx.x] = number[0];
    if (has_barrier) __syncthreads();
  }
}

/** Every thread increments a counter, atomically or not. */
template <bool is_atomic> __global__ void count_threads(int* y) {
  MZ_SHARED(int, counter, 1);
  if (threadIdx.x == 0) counter[0] = 0;
  __syncthreads();
  if (is_atomic)
    atomicAdd(counter, 1);
  else
    ++counter[0];
  __syncthreads();
  if (threadIdx.x == 0) *y = counter[0];
}

/** An atomic access is not a barrier for other accesses. */
__global__ void read_beside_atomic(int* y) {
  MZ_SHARED(int, counter, 1);
  if (threadIdx.x == 0) counter[0] = 0;
  __syncthreads();
  if (threadIdx.x == 40) atomicAdd(counter, 1);
  if (threadIdx.x == 0) *y = counter[0];
}

/** Writes to neighbouring bytes do not race. */
__global__ void write_bytes(std::uint8_t* y) {
  MZ_SHARED(std::uint8_t, bytes, kRaceThreads);
  bytes[threadIdx.x] = static_cast<std::uint8_t>(threadIdx.x);
  y[threadIdx.x] = bytes[threadIdx.x];
}

/** Each thread copies 16 bytes and the next thread reads them. */
template <bool has_barrier> __global__ void rotate_copies(int* y) {
  MZ_SHARED(gpu::LeftWords, words, kRaceThreads);
  const auto i = static_cast<int>(threadIdx.x);
  gpu::AsyncCopies copies;
  copies.set_places(&words[i], y);
  copies.begin<0, 0>();
  copies.end_group();
  copies.wait<0>();
  if (has_barrier) __syncthreads();
  const std::uint32_t seen = words[(i + 1) % kRaceThreads].item[0];
  if (seen == 1) y[i] = 0;  // they are 0
}

/** The halves of a barrier between blocks order the block's own memory, each for itself. */
template <bool arrives, bool waits> __global__ void rotate_between(int* y) {
  MZ_SHARED(int, numbers, kRaceThreads);
  const auto i = static_cast<int>(threadIdx.x);
  numbers[i] = i;
  unsigned* const flags = reinterpret_cast<unsigned*>(y) + kRaceThreads / 2;
  gpu::GroupBarrier barrier(flags, 2, blockIdx.x);
  if (arrives) barrier.arrive();
  if (waits) barrier.wait();
  if (numbers[(i + 1) % kRaceThreads] < 0) y[0] = 1;
  if (arrives) barrier.leave();
}

template <class T> std::vector<std::string> faults_of(void (*kernel)(T*), bool together = false) {
  const Tensor y = zeros({kRaceThreads}, {.device = {DeviceKind::cuda, 0}}).to(dtype_of<T>());
  std::vector<std::string> faults;
  for (const Schedule schedule : kSchedules) {
    const ScheduleScope scope(schedule);
    const gpu::Grid grid{
        .blocks = 2, .threads = kRaceThreads, .shared = kRaceThreads * sizeof(float)};
    faults.push_back(fault_of([&] {
      if (together)
        gpu::launch_together(kernel, grid, nullptr, y.data<T>());
      else
        gpu::launch(kernel, grid, nullptr, y.data<T>());
    }));
  }
  return faults;
}

template <class T> bool is_clean(void (*kernel)(T*), bool together = false) {
  return faults_of(kernel, together) == std::vector<std::string>(std::size(kSchedules));
}

/** Returns whether every schedule detects the race and names the kernel's line and the memory. */
template <class T> bool races_on(const std::string& memory, void (*kernel)(T*)) {
  for (const std::string& fault : faults_of(kernel)) {
    UNSCOPED_INFO(fault);
    if (fault.find("races.cpp:") != 0 ||
        fault.find("of shared memory `" + memory + "` without a barrier between") ==
            std::string::npos)
      return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a read of shared memory that another thread writes needs a barrier", "[emulator]") {
  CHECK(is_clean(&rotate<RaceBug::none, float>));
  CHECK(is_clean(&rotate<RaceBug::none, std::uint8_t>));
  CHECK(races_on("numbers", &rotate<RaceBug::missing_barrier, float>));
  CHECK(races_on("numbers", &rotate<RaceBug::missing_barrier, std::uint8_t>));
  CHECK(races_on("numbers", &rotate<RaceBug::warp_barrier, float>));
}

TEST_CASE("a warp barrier orders the warp's lanes", "[emulator]") {
  CHECK(is_clean(&rotate_in_warps<true>));
  CHECK(races_on("numbers", &rotate_in_warps<false>));
}

TEST_CASE("in-place sums and reused memory need barriers", "[emulator]") {
  CHECK(is_clean(&sum_halves<true>));
  CHECK(races_on("dynamic", &sum_halves<false>));
  CHECK(is_clean(&reuse<true>));
  CHECK(races_on("number", &reuse<false>));
}

TEST_CASE("atomic operations race only with non-atomic ones", "[emulator]") {
  CHECK(is_clean(&count_threads<true>));
  CHECK(races_on("counter", &count_threads<false>));
  CHECK(races_on("counter", &read_beside_atomic));
  CHECK(is_clean(&write_bytes));
}

TEST_CASE("copies into shared memory need a barrier before other threads read them", "[emulator]") {
  CHECK(is_clean(&rotate_copies<true>));
  CHECK(races_on("words", &rotate_copies<false>));
}

TEST_CASE("a barrier between blocks orders the threads of each", "[emulator]") {
  CHECK(is_clean(&rotate_between<true, true>, true));
  CHECK(is_clean(&rotate_between<true, false>, true));
  CHECK(races_on("numbers", &rotate_between<false, false>));
}
