// GroupBarrier: lets blocks of a cooperative launch wait for each other.
#pragma once

#include "../kernel.h"
#include "../tickets.h"

namespace mezzo::gpu {

#ifdef __CUDACC__
__device__ inline void pause_polling() {}
#endif

/** Adds 1 to a counter after all that the calling thread has written or seen. Returns the sum. */
__device__ inline unsigned count_after_writes(unsigned* counter) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
  unsigned old;
  asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;"
               : "=r"(old)
               : "l"(__cvta_generic_to_global(counter))
               : "memory");
  return old + 1;
#else
  __threadfence();
  return atomicAdd(counter, 1u) + 1;
#endif
}
/** Returns a counter. What was written before others counted is seen afterwards. */
__device__ inline unsigned read_count(const unsigned* counter) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
  unsigned count;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
               : "=r"(count)
               : "l"(__cvta_generic_to_global(counter))
               : "memory");
  return count;
#else
  const unsigned count = *static_cast<const volatile unsigned*>(counter);
  __threadfence();
  return count;
#endif
}

/** A barrier of `blocks` blocks that run at once. It counts arrivals at a ticket, which is 0 before
 *  and after the kernel. All threads of a block call its functions. */
class GroupBarrier {
 public:
  __device__ GroupBarrier(unsigned* ticket, unsigned blocks) : ticket_(ticket), blocks_(blocks) {}

  /** Announces that the block has written what others will read. */
  __device__ void arrive() {
    __syncthreads();
    if (threadIdx.x == 0) count_after_writes(ticket_);
    arrivals_ += blocks_;
  }
  /** Waits until all blocks have arrived as often as this one. Afterwards it sees what they wrote
   *  before. */
  __device__ void wait() const {
    if (threadIdx.x == 0)
      while (read_count(ticket_) < arrivals_) pause_polling();
    __syncthreads();
  }
  /** Ends the use of the barrier, after the last wait(). */
  __device__ void leave() const {
    if (threadIdx.x == 0 && count_after_writes(ticket_) == arrivals_ + blocks_) *ticket_ = 0;
  }

 private:
  unsigned* ticket_;
  unsigned blocks_, arrivals_ = 0;
};

}  // namespace mezzo::gpu
