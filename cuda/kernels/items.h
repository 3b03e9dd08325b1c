// Kernels with one thread per item.
#pragma once

#include "../runtime/device.h"
#include "kernel.h"

namespace mezzo::gpu {

inline constexpr int kItemThreads = 256;

/** Returns the calling thread's item. Threads of the last block may be beyond the last item. */
__device__ inline std::int64_t item_here() {
  return static_cast<std::int64_t>(blockIdx.x) * kItemThreads + threadIdx.x;
}

/** Launches a kernel with one thread per item in blocks of kItemThreads, in the device's stream. */
template <class... Ps, class... As>
void launch_over(std::int64_t items, Device device, void (*kernel)(Ps...), const As&... arguments) {
  launch(kernel, {.blocks = blocks_for(items, kItemThreads), .threads = kItemThreads},
         current_stream(device), arguments...);
}

/** Returns the quotient and sets the remainder. Uses a 32-bit division where possible, which is
 *  several times faster. */
__device__ inline std::int64_t divided(std::int64_t value, std::int64_t by, std::int64_t& rest) {
  std::int64_t quotient;
  if ((value | by) >> 31 == 0)
    quotient = static_cast<std::uint32_t>(value) / static_cast<std::uint32_t>(by);
  else
    quotient = value / by;
  rest = value - quotient * by;
  return quotient;
}

/** Quotient and remainder as one value. */
struct Split {
  std::int64_t quotient = 0, rest = 0;

  __device__ Split(std::int64_t value, std::int64_t by) { quotient = divided(value, by, rest); }
};

}  // namespace mezzo::gpu
