// The last block of a launch to finish, which combines what all have done.
// See also: tickets.h (memory for tickets).
#pragma once

#include "kernel.h"

namespace mezzo::gpu {

/** Counts the calling block at a ticket. Returns true, to all threads, in the last of `blocks`
 *  blocks, which sees what the others wrote before, and sets the ticket to 0. All threads of the
 *  block must call it; `room` is shared. */
__device__ inline bool is_last_block(unsigned* ticket, unsigned blocks, int* room) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const bool last = atomicAdd(ticket, 1u) + 1 == blocks;
    if (last) *ticket = 0;
    *room = last ? 1 : 0;
  }
  __syncthreads();
  const bool last = *room != 0;
  __syncthreads();  // the room may be used again
  if (last) __threadfence();
  return last;
}

}  // namespace mezzo::gpu
