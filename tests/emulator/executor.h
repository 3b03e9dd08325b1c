// The executor: runs an emulated kernel block by block, with the threads of a block as fibers in a
// configurable order. The blocks of a cooperative launch run in turns: each until all its threads
// wait, or poll for another block.
//
// A fiber runs one thread after another until one has to wait, so kernels without barriers never
// switch. Reported as faults: deadlocks, barriers reached at different places, shuffles and matrix
// operations that not all lanes reach, and races on shared memory in instrumented code (races.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "../../cuda/runtime/failed_call.h"
#include "../../tensor/core/macros.h"

namespace mezzo::emulator {

using gpu::CallPlace;

/** The order in which runnable threads are chosen. A kernel without races gives the same result in
 *  every order. */
enum class Schedule {
  rotating,   // alternates between the four below from launch to launch
  forward,    // in ascending order
  reverse,    // in descending order
  scrambled,  // in a scrambled order
  greedy      // the first warp as far as possible, then the next
};

/** Sets the order for all later launches. */
MZ_API void set_schedule(Schedule schedule);

/** An error in a kernel, thrown by its launch. */
struct MZ_API Fault : std::logic_error {
  using std::logic_error::logic_error;
};

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

/** The values of threadIdx, blockIdx, blockDim and gridDim for the running thread. */
struct Here {
  Index3 thread, block, block_size{1, 1, 1}, grid_size{1, 1, 1};
  bool atomic = false;  // within an atomic operation
};
extern MZ_API Here here;

inline constexpr unsigned kWarp = 32;
inline constexpr std::size_t kSharedLimit = 48 << 10;  // bytes per block without an opt-in

/** Runs body(argument) once per thread. `together`: the blocks may wait for each other. Errors:
 *  Fault. */
MZ_API void run_grid(Index3 grid_size, Index3 block_size, std::size_t dynamic_shared,
                     void (*body)(void*), void* argument, bool together = false);

// ---- building blocks of the intrinsics ----------------------------------------------------------

/** Returns memory shared by the threads of a block, one piece per `key`, which is the variable's
 *  name. It is filled with 0xFF bytes in every block. Alignments beyond kSharedAlignment are exact:
 *  an address is never a multiple of a larger power of two. */
MZ_API void* shared_slot(const void* key, std::size_t bytes, std::size_t alignment);
inline constexpr std::size_t kSharedAlignment = 16;
/** Returns the shared memory whose size is an argument of the launch. */
MZ_API void* dynamic_shared();

/** Waits for all threads of the block. */
MZ_API void wait_for_block(CallPlace place);

/** The values that the lanes of a warp exchange. */
struct Exchange {
  std::uint64_t value[kWarp];
  std::uint32_t present;  // bit i: lane i takes part
};
/** Waits for the lanes in `mask` and exchanges their values. The result is valid until the lane's
 *  next call but one. */
MZ_API const Exchange& meet_warp(std::uint32_t mask, std::uint64_t value, CallPlace place);
/** A function of the exchanged values. It runs once, when all lanes have arrived and none has
 *  continued. Returns the text of a fault, or null. */
using Act = const char* (*)(const Exchange& all);
MZ_API const Exchange& meet_warp(std::uint32_t mask, std::uint64_t value, CallPlace place, Act act);
/** Waits for the lanes in `mask` and orders their earlier memory accesses. Shuffles and votes do
 *  not order them. */
MZ_API void sync_warp(std::uint32_t mask, CallPlace place);
/** Ends the launch with a fault: the running thread did something that a device forbids. */
MZ_API void forbid(const char* what, CallPlace place);
/** The same with the full text. It does not return, and the thread's stack is not unwound: the text
 *  is moved from, and the caller must own no other memory. */
void fail_kernel(std::string&& what);
/** Lets other blocks run. A thread that waits for another block calls it between two looks at
 *  memory. */
MZ_API void let_blocks_run(CallPlace place);
/** Waits for all threads of the block and returns the sum of their values. */
MZ_API int sum_over_block(int value, CallPlace place);

}  // namespace mezzo::emulator
