// The executor: runs an emulated kernel block by block, the threads of a block as fibers, in an order of choice.
// Sees: the standard library, ../../cuda/place.h, ../../tensor/macros.h.
// Read next: cuda.h (what kernels call), executor.cpp, TRIED.md section D (limits: logic only, no timing, no memory model).
//
// A fiber runs thread after thread until one has to wait, so kernels without barriers never switch.
// Reported as faults: threads that wait for each other in vain, barriers reached in different
// places, shuffles and matrix operations whose lanes do not all come; races on shared memory where
// the code is watched (races.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "../../cuda/place.h"
#include "../../tensor/macros.h"

namespace mezzo::emulator {

using gpu::CallPlace;

/** Which thread goes on when several could. A kernel without races gives the same result in all of them. */
enum class Schedule {
  rotating,   // another of the four below with each launch
  forward,    // in order of their numbers
  reverse,    // against it
  scrambled,  // in an order without pattern
  greedy      // the first warp as far as it can get, then the next
};

/** The order of all launches from now on. */
MZ_API void set_schedule(Schedule schedule);

/** What is wrong with a kernel. Thrown by the launch that ran it. */
struct MZ_API Fault : std::logic_error {
  using std::logic_error::logic_error;
};

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

/** What threadIdx, blockIdx, blockDim and gridDim mean to the running thread. */
struct Here {
  Index3 thread, block, block_size{1, 1, 1}, grid_size{1, 1, 1};
  bool atomic = false;  // it is within an atomic operation
};
extern MZ_API Here here;

inline constexpr unsigned kWarp = 32;
inline constexpr std::size_t kSharedLimit = 48 << 10;  // bytes a block may have without asking for more

/** Runs body(argument) once per thread. Errors: Fault. */
MZ_API void run_grid(Index3 grid_size, Index3 block_size, std::size_t dynamic_shared, void (*body)(void*),
                     void* argument);

// ---- what the intrinsics are made of ----------------------------------------------------------------------------------

/** Memory that the threads of a block share, the same for all that name the same key, its name
 *  as text; starts as 0xFF bytes in every block. Alignments beyond kSharedAlignment are kept
 *  exactly: an address is never a multiple of more by luck. */
MZ_API void* shared_slot(const void* key, std::size_t bytes, std::size_t alignment);
inline constexpr std::size_t kSharedAlignment = 16;
/** The shared memory whose size is an argument of the launch. */
MZ_API void* dynamic_shared();

/** Waits for all threads of the block. */
MZ_API void wait_for_block(CallPlace place);

/** The values that the lanes of a warp brought to one meeting. */
struct Exchange {
  std::uint64_t value[kWarp];
  std::uint32_t present;  // bit i: lane i takes part
};
/** Waits for the lanes in `mask` and hands over `value`. The result holds until the lane's next meeting but one. */
MZ_API const Exchange& meet_warp(std::uint32_t mask, std::uint64_t value, CallPlace place);
/** What a meeting comes to. Runs once, when all lanes have come and none has gone on; the text of a fault, or null. */
using Act = const char* (*)(const Exchange& all);
MZ_API const Exchange& meet_warp(std::uint32_t mask, std::uint64_t value, CallPlace place, Act act);
/** Waits for the lanes in `mask`, and orders what they did before: shuffles and votes do not. */
MZ_API void sync_warp(std::uint32_t mask, CallPlace place);
/** Ends the launch: the running thread does what a device forbids. */
MZ_API void forbid(const char* what, CallPlace place);
/** The same, told in full. It does not return and nothing unwinds the thread's stack, so the text is
 *  taken over, and the caller holds no other memory. */
void fail_kernel(std::string&& what);
/** As wait_for_block, handing over a number; the result is the sum of all. */
MZ_API int sum_over_block(int value, CallPlace place);

}  // namespace mezzo::emulator
