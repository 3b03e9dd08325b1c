// The emulator itself: correct kernels give correct results in every schedule; bugs are detected.
#include "../emulator/cuda.h"  // first, as in a kernel file

#include <mezzo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <string>
#include <utility>

#include "../../cuda/kernels/async_copy.h"
#include "../../cuda/kernels/element.h"
#include "../../cuda/kernels/kernel.h"
#include "../../cuda/kernels/recurrent/group_barrier.h"
#include "../../tensor/device/backend.h"
#include "../../tensor/memory/address_sanitizer.h"
#include "../support/catch.h"
#include "../support/throws.h"
#include "device.h"
#include "emulation.h"

using namespace mezzo;
using namespace emulation;
using testing::kDevice;

namespace {

/** Returns 0, 1, 2, ... on the device. */
Tensor counting_on_device(std::int64_t n) { return arange(static_cast<double>(n)).to(kDevice); }

constexpr int kThreads = 128;

enum class BarrierBug { none, no_first_barrier, no_last_barrier };

/** Computes y[block] = sum of the block's elements, twice, through the same shared array. */
template <BarrierBug bug> __global__ void sum_blocks(const float* x, float* y) {
  MZ_SHARED(float, part, kThreads);
  const auto i = static_cast<int>(threadIdx.x);
  for (int round = 0; round < 2; ++round) {
    part[i] = x[blockIdx.x * kThreads + threadIdx.x] * static_cast<float>(round + 1);
    if (bug != BarrierBug::no_first_barrier) __syncthreads();
    float total = 0;
    for (int k = 0; k < kThreads; ++k) total += part[k];
    if (bug != BarrierBug::no_last_barrier) __syncthreads();
    if (i == 0) y[blockIdx.x * 2 + static_cast<unsigned>(round)] = total;
  }
}

template <BarrierBug bug> std::vector<double> sums(Schedule schedule) {
  const ScheduleScope scope(schedule);
  const Tensor x = counting_on_device(2 * kThreads), y = empty({4}, {.device = kDevice});
  gpu::launch(&sum_blocks<bug>, {.blocks = 2, .threads = kThreads}, nullptr, x.data<float>(),
              y.data<float>());
  return y.to_vector<double>();
}

const std::vector<double> kSums{127 * 64, 127 * 128, 127 * 64 + 128 * 128, 127 * 128 + 128 * 256};

template <BarrierBug bug> int wrong_sums() {
  int wrong = 0;
  for (const Schedule schedule : kSchedules) wrong += sums<bug>(schedule) != kSums ? 1 : 0;
  return wrong;
}

__global__ void half_reach_the_barrier() {
  if (threadIdx.x % 32 < 16) __syncthreads();
}

__global__ void two_barriers() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}

__global__ void half_shuffle(float* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(gpu::kAllLanes, 1.0f, 1);
}

__global__ void shuffles(float* y) {
  float v = static_cast<float>(threadIdx.x);
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(gpu::kAllLanes, v, d);
  const float up = __shfl_up_sync(gpu::kAllLanes, static_cast<float>(threadIdx.x), 1u);
  const float first = __shfl_sync(gpu::kAllLanes, static_cast<float>(threadIdx.x), 0);
  const unsigned odd = __ballot_sync(gpu::kAllLanes, threadIdx.x % 2);
  const bool votes = __any_sync(gpu::kAllLanes, threadIdx.x == 3) != 0 &&
                     __all_sync(gpu::kAllLanes, threadIdx.x == 3) == 0 && odd == 0xAAAAAAAAu;
  y[threadIdx.x] = v + 1000 * up + 100000 * (votes ? 1.0f : 0.0f) + first;
}

__global__ void dynamic_reversal(const float* x, float* y, int n) {
  MZ_DYNAMIC_SHARED(float, room);
  const auto i = static_cast<int>(threadIdx.x);
  room[i] = x[i];
  __syncthreads();
  y[i] = room[n - 1 - i];
}

__global__ void count_all(int* at) { atomicAdd(at, 1); }

__global__ void write_at(float* x, int i) { x[i] = 1; }

}  // namespace

TEST_CASE("a kernel with barriers gives the same result in every schedule", "[emulator]") {
  for (const Schedule schedule : kSchedules) CHECK(sums<BarrierBug::none>(schedule) == kSums);
}

TEST_CASE("a missing barrier is detected", "[emulator]") {
  CHECK(wrong_sums<BarrierBug::no_first_barrier>() == 4);
  CHECK(wrong_sums<BarrierBug::no_last_barrier>() >=
        1);  // requires one warp to run ahead of another
  CHECK(sums<BarrierBug::no_last_barrier>(Schedule::greedy) != kSums);
}

TEST_CASE("barriers and shuffles that not all threads reach are faults", "[emulator]") {
  const Tensor y = empty({32}, {.device = kDevice});
  CHECK(fault_of([] {
          gpu::launch(&half_reach_the_barrier, {.threads = 64}, nullptr);
        }).find("deadlock: 32 of 64") != std::string::npos);
  CHECK(fault_of([] {
          gpu::launch(&two_barriers, {.threads = 64}, nullptr);
        }).find("different barriers") != std::string::npos);
  CHECK(fault_of([&] {
          gpu::launch(&half_shuffle, {.threads = 32}, nullptr, y.data<float>());
        }).find("for lanes of their warp") != std::string::npos);
  CHECK(sums<BarrierBug::none>(Schedule::forward) == kSums);  // faults leave no state behind
}

namespace {

/** Passes numbers around a ring of blocks, one block further in each round. */
__global__ void pass_around(unsigned* flags, float* x, float* y, int rounds, unsigned expected) {
  MZ_SHARED(float, own, kThreads);
  gpu::GroupBarrier barrier(flags, expected, blockIdx.x);
  const unsigned blocks = gridDim.x, block = blockIdx.x, thread = threadIdx.x;
  own[thread] = static_cast<float>(block * kThreads + thread);
  for (int round = 0; round < rounds; ++round) {
    __syncthreads();
    float* const room = x + static_cast<unsigned>(round & 1) * blocks * kThreads;
    room[block * kThreads + thread] = own[kThreads - 1 - thread];
    barrier.arrive();
    barrier.wait();
    own[kThreads - 1 - thread] = room[(block + 1) % blocks * kThreads + thread];
  }
  barrier.leave();
  __syncthreads();
  y[block * kThreads + thread] = own[thread];
}

/** Returns the numbers after some rounds in a ring of blocks. `expected`: blocks that the barrier
 *  waits for. */
std::vector<double> passed(int ring, int rounds, unsigned expected, Tensor& flags) {
  const Tensor x = empty({2 * ring * kThreads}, {.device = kDevice}),
               y = empty({ring * kThreads}, {.device = kDevice});
  gpu::launch_together(&pass_around, {.blocks = ring, .threads = kThreads}, nullptr,
                       static_cast<unsigned*>(flags.raw_data()), x.data<float>(), y.data<float>(),
                       rounds, expected);
  return y.to_vector<double>();
}

constexpr int kRing = 5;
constexpr std::int64_t kFlags = 64;

}  // namespace

TEST_CASE("the blocks of a cooperative launch wait for each other", "[emulator]") {
  Tensor flags = zeros({kFlags}, {.dtype = i32, .device = kDevice});
  const ResidentScope many(2 * gpu::kWarpSize);
  for (const Schedule schedule : kSchedules)
    for (const int ring : {1, kRing, gpu::kWarpSize + 7}) {  // also more than lanes that poll
      const ScheduleScope scope(schedule);
      const std::vector<double> x = passed(ring, 7, static_cast<unsigned>(ring), flags);
      for (int block = 0; block < ring; ++block)
        for (int i = 0; i < kThreads; ++i)
          if (x[static_cast<std::size_t>(block * kThreads + i)] !=
              (block + 7) % ring * kThreads + i)
            FAIL("block " << block << " thread " << i);
      // the barrier can be used again
      CHECK(flags.to_vector<double>() == std::vector<double>(kFlags, 0.0));
    }
}

TEST_CASE("a barrier that not all blocks reach is a fault, too many blocks are refused",
          "[emulator]") {
  Tensor flags = zeros({kFlags}, {.dtype = i32, .device = kDevice});
  const std::string fault = fault_of([&] { (void)passed(kRing, 1, kRing + 1, flags); });
  CHECK(fault.find("deadlock: blocks wait for each other at ") != std::string::npos);
  CHECK(fault.find("group_barrier.h") != std::string::npos);
  flags.zero_();
  const auto alone = [&] {
    const Tensor x = empty({2 * kRing * kThreads}, {.device = kDevice});
    gpu::launch(&pass_around, {.blocks = kRing, .threads = kThreads}, nullptr,
                static_cast<unsigned*>(flags.raw_data()), x.data<float>(), x.data<float>(), 1,
                unsigned{kRing});
  };
  CHECK(fault_of(alone).find("a block waits for another one") != std::string::npos);
  flags.zero_();
  const ResidentScope few(kRing - 1);
  CHECK_THROWS_AS(passed(kRing, 1, kRing, flags), CudaError);
}

namespace {

struct alignas(16) Words {
  float number[4];
};

/** Copies numbers through shared memory, in groups of two words of 16 bytes, and waits for all
 *  groups but the last `left`. */
template <int left> __global__ void copy_in_groups(const float* x, float* y) {
  MZ_SHARED(Words, room, 6);
  gpu::AsyncCopies copies;
  copies.set_places(room, x);
  copies.begin<0, 16>();
  copies.begin<16, 0>();
  copies.end_group();
  copies.begin<32, 48>();
  copies.begin<48, 32>();
  copies.end_group();
  copies.begin<64, 80>();
  copies.begin<80, 64>();
  copies.end_group();
  copies.wait<left>();
  for (int i = 0; i < 24; ++i) y[i] = room[i / 4].number[i % 4];
}

std::vector<double> copied(void (*kernel)(const float*, float*)) {
  const Tensor x = counting_on_device(24), y = empty({24}, {.device = kDevice});
  gpu::launch(kernel, {.threads = 1}, nullptr, static_cast<const float*>(x.data<float>()),
              y.data<float>());
  return y.to_vector<double>();
}

}  // namespace

TEST_CASE("copies into shared memory are seen when their group was waited for", "[emulator]") {
  const auto check = [](const std::vector<double>& y, int words) {
    for (int i = 0; i < 24; ++i) {
      const double at = y[static_cast<std::size_t>(i)];
      if (i / 4 < words)
        CHECK(at == (i / 4 ^ 1) * 4 + i % 4);
      else
        CHECK(std::isnan(at));
    }
  };
  check(copied(&copy_in_groups<0>), 6);
  check(copied(&copy_in_groups<1>), 4);
  check(copied(&copy_in_groups<3>), 0);
}

TEST_CASE("shuffles and votes", "[emulator]") {
  const Tensor y = empty({32}, {.device = kDevice});
  for (const Schedule schedule : kSchedules) {
    const ScheduleScope scope(schedule);
    gpu::launch(&shuffles, {.threads = 32}, nullptr, y.data<float>());
    const std::vector<double> v = y.to_vector<double>();
    for (std::size_t i = 0; i < 32; ++i)
      CHECK(v[i] == 496 + 1000 * static_cast<double>(i == 0 ? 0 : i - 1) + 100000);
  }
}

TEST_CASE("dynamic shared memory and atomics", "[emulator]") {
  const Tensor x = counting_on_device(64), y = empty({64}, {.device = kDevice});
  gpu::launch(&dynamic_reversal, {.threads = 64, .shared = 64 * sizeof(float)}, nullptr,
              x.data<float>(), y.data<float>(), 64);
  CHECK(y.to_vector<int>()[0] == 63);
  const Tensor n = zeros({}, {.dtype = i32, .device = kDevice});
  gpu::launch(&count_all, {.blocks = 3, .threads = 96}, nullptr, n.data<std::int32_t>());
  CHECK(n.item<int>() == 288);
}

TEST_CASE("device memory is initialised to nan, and overruns are counted", "[emulator]") {
  for (const double v : empty({5}, {.device = kDevice}).to_vector<double>()) CHECK(std::isnan(v));
#ifndef MZ_ADDRESS_SANITIZER  // AddressSanitizer ends the program at the write
  const std::int64_t before = emulator::overrun_blocks();
  {
    const Tensor x = empty({10}, {.device = kDevice});
    gpu::launch(&write_at, {.threads = 1}, nullptr, x.data<float>(), 9);
  }
  CHECK(emulator::overrun_blocks() == before);
  {
    const Tensor x = empty({10}, {.device = kDevice});
    gpu::launch(&write_at, {.threads = 1}, nullptr, x.data<float>(), 10);
  }
  CHECK(emulator::overrun_blocks() == before + 1);
#endif
}

#ifdef MZ_ADDRESS_SANITIZER
namespace {

__global__ void read_at(const float* x, int i, float* y) { *y = x[i]; }

__global__ void read_shared_at(int i, float* y) {
  MZ_SHARED(float, room, 8);
  room[0] = 1;
  *y = room[i];
}

__global__ void add_one(int i, int* y) { *y = i + 1; }

__global__ void load_pack(const float* x, float* y) {
  *y = reinterpret_cast<const gpu::Pack<float, 4>*>(x)->item[0];
}

/** Returns what a child process that runs `body` writes to standard error; empty where it
 *  survives. */
template <class Body> std::string last_words(Body&& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    body();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t n = 0; (n = read(ends[0], part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  const bool survived = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return survived ? "" : text;
}

}  // namespace

TEST_CASE("the sanitizers detect invalid accesses of kernels", "[emulator]") {
  const Tensor y = empty({}, {.device = kDevice}), n = zeros({}, {.dtype = i32, .device = kDevice});
  const auto words_of_read = [&](const float* x, int i) {
    return last_words(
        [=] { gpu::launch(&read_at, {.threads = 1}, nullptr, x, i, y.data<float>()); });
  };
  const auto tells = [](const std::string& words, const char* what) {
    return words.find(what) != std::string::npos;
  };
  Tensor x = counting_on_device(10);
  const float* at = x.data<float>();
  CHECK(words_of_read(at, 9).empty());
  CHECK(tells(words_of_read(at, 10), "use-after-poison"));
  CHECK(tells(words_of_read(at, -1), "use-after-poison"));
  CHECK(tells(
      last_words([&] { gpu::launch(&write_at, {.threads = 1}, nullptr, x.data<float>(), 10); }),
      "use-after-poison"));
  x = Tensor();
  CHECK(tells(words_of_read(at, 9), "use-after-poison"));

  const auto words_of_shared = [&](int i) {
    return last_words(
        [=] { gpu::launch(&read_shared_at, {.threads = 1}, nullptr, i, y.data<float>()); });
  };
  CHECK(words_of_shared(7).empty());
  CHECK(tells(words_of_shared(8), "out of bounds"));
  const Tensor all = counting_on_device(20);
  const auto words_of_pack = [&](int offset) {
    return last_words([=] {
      gpu::launch(&load_pack, {.threads = 1}, nullptr, all.data<float>() + offset, y.data<float>());
    });
  };
  CHECK(words_of_pack(4).empty());
  for (const int offset : {1, 2, 3, 5}) CHECK(tells(words_of_pack(offset), "misaligned address"));

  const auto words_of_sum = [&](int i) {
    return last_words(
        [=] { gpu::launch(&add_one, {.threads = 1}, nullptr, i, n.data<std::int32_t>()); });
  };
  CHECK(words_of_sum(0).empty());
  CHECK(tells(words_of_sum(std::numeric_limits<int>::max()), "signed integer overflow"));
}
#endif

TEST_CASE("the host cannot access device memory", "[emulator]") {
  const Tensor x = counting_on_device(4);
  CHECK(emulator::is_device_memory(x.raw_data()));
  CHECK(!emulator::is_device_memory(x.to(cpu).raw_data()));
  emulator::close_memory();
  const pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(0);
    signal(SIGSEGV, SIG_DFL);
    _exit(static_cast<int>(*x.data<float>()));
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK((!WIFEXITED(status) || WEXITSTATUS(status) != 0));
}

TEST_CASE("only timed events can be timed, as with the driver", "[emulator]") {
  const Queues& queues = find_backend(DeviceKind::cuda)->queues();
  const auto time_between = [&](bool first_is_timed, bool second_is_timed) {
    const QueueMark begin = queues.make_mark(kDevice, first_is_timed);
    const QueueMark end = queues.make_mark(kDevice, second_is_timed);
    for (const QueueMark mark : {begin, end}) queues.place(mark, kDevice, queues.current(kDevice));
    queues.wait_for(end);
    std::string error;
    try {
      const float milliseconds = queues.between(begin, end);
      CHECK(milliseconds >= 0);
    } catch (const CudaError& e) {
      error = e.what();
    }
    queues.drop_mark(begin);
    queues.drop_mark(end);
    return error;
  };
  CHECK(time_between(true, true).empty());
  for (const auto& [first, second] : {std::pair{false, true}, {true, false}, {false, false}})
    CHECK(time_between(first, second).find("created without timing") != std::string::npos);
}
