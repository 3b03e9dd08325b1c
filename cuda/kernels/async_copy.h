// AsyncCopies: copies from the memory of the device into shared memory, which run while the thread
// goes on and take none of its registers. The instruction is cp.async, from compute capability 8.0
// on, for which alone the class can be used; the emulated build has it in
// tests/emulator/async_copy.h.
#pragma once

#include "element.h"

namespace mezzo::gpu {

#ifdef __CUDACC__
/** The copies of a thread, in groups. Only the thread sees what was copied, until a barrier. */
class AsyncCopies {
 public:
  /** Sets where offsets of begin() count from, in shared memory and in that of the device:
   *  multiples of 16 bytes. */
  __device__ void set_places(void* to, const void* from) {
    to_ = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
    // volatile: else the address is computed again for each copy
    asm volatile("cvta.to.global.u64 %0, %1;" : "=l"(from_) : "l"(from));
  }
  /** Begins to copy 16 bytes. The offsets, in bytes, are part of the instruction. */
  template <int to_offset, int from_offset> __device__ void begin() {
#  if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0 + %2], [%1 + %3], 16;"
                 :
                 : "r"(to_), "l"(from_), "n"(to_offset), "n"(from_offset)
                 : "memory");
#  endif
  }
  /** Ends a group: the copies since the last one, or none. */
  __device__ void end_group() {
#  if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" : : : "memory");
#  endif
  }
  /** Waits for all groups but the last `left`. */
  template <int left> __device__ void wait() {
#  if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" : : "n"(left) : "memory");
#  endif
  }

 private:
  std::uint32_t to_;
  std::uint64_t from_;
};
#else
using emulator::AsyncCopies;
#endif

}  // namespace mezzo::gpu
