// GroupBarrier: lets blocks of a cooperative launch wait for each other.
#pragma once

#include "../kernel.h"
#include "../tickets.h"

namespace mezzo::gpu {

#ifdef __CUDACC__
__device__ inline void pause_polling() {}
#endif

/** Sets a flag after all that the calling thread has written or seen. */
__device__ inline void release_flag(unsigned* flag, unsigned value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
  asm volatile("st.release.gpu.global.u32 [%0], %1;"
               :
               : "l"(__cvta_generic_to_global(flag)), "r"(value)
               : "memory");
#else
  __threadfence();
  *static_cast<volatile unsigned*>(flag) = value;
#endif
}
/** Returns a flag. What was written before it was set is seen afterwards. */
__device__ inline unsigned acquire_flag(const unsigned* flag) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
  unsigned value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
               : "=r"(value)
               : "l"(__cvta_generic_to_global(flag))
               : "memory");
  return value;
#else
  const unsigned value = *static_cast<const volatile unsigned*>(flag);
  __threadfence();
  return value;
#endif
}

/** A barrier of `blocks` blocks that run at once. Each has a flag, which only it sets: to the
 *  number of its arrivals. The flags are 0 before and after the kernel, so that the same launch can
 *  be replayed. All threads of a block call its functions.
 *
 *  Why a block sees what the others wrote before they arrived: __syncthreads() orders the writes of
 *  a block before the flag, which one thread releases; a release covers what its thread has seen.
 *  A lane that acquires the flag sees these writes, and the next __syncthreads() passes them on to
 *  its block. All that blocks exchange takes turns between two buffers: who writes one again has
 *  waited for blocks that arrived after they had read it. */
class GroupBarrier {
 public:
  /** `block`: the number of the calling block, below `blocks`. */
  __device__ GroupBarrier(unsigned* flags, unsigned blocks, unsigned block)
      : flags_(flags), own_(flags + block), blocks_(blocks) {}

  /** Announces that the block has written what others will read. */
  __device__ void arrive() {
    __syncthreads();
    ++arrivals_;
    // In another warp than the one that polls, which then does not wait for the block's writes.
    if (threadIdx.x == blockDim.x - 1) release_flag(own_, arrivals_);
  }
  /** Waits until all blocks have arrived as often as this one. Afterwards it sees what they wrote
   *  before. */
  __device__ void wait() const {
    if (threadIdx.x < kWarpSize)
      for (unsigned i = threadIdx.x; i < blocks_; i += kWarpSize)
        while (acquire_flag(flags_ + i) < arrivals_) pause_polling();
    __syncthreads();
  }
  /** Ends the use of the barrier, after the last wait(). */
  __device__ void leave() {
    arrive();
    if (own_ != flags_) return;
    wait();  // after it no block reads a flag
    for (unsigned i = threadIdx.x; i < blocks_; i += blockDim.x) flags_[i] = 0;
  }

 private:
  unsigned *flags_, *own_;
  unsigned blocks_, arrivals_ = 0;
};

}  // namespace mezzo::gpu
