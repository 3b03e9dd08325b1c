// Kernels of one thread per item: launching them, the calling thread's item, and splitting its number.
// Sees: ../device.h, ../kernel.h.
// Read next: rows.cu, places.cu, sort.cu (the users).
#pragma once

#include "../device.h"
#include "../kernel.h"

namespace mezzo::gpu {

inline constexpr int kItemThreads = 256;

/** The calling thread's item; the last block's threads may be beyond the last one. */
__device__ inline std::int64_t item_here() {
  return static_cast<std::int64_t>(blockIdx.x) * kItemThreads + threadIdx.x;
}

/** Puts a kernel of kItemThreads into the device's stream, with a thread for each item. */
template <class... Ps, class... As>
void launch_over(std::int64_t items, Device device, void (*kernel)(Ps...), const As&... arguments) {
  launch(kernel, {.blocks = blocks_for(items, kItemThreads), .threads = kItemThreads}, current_stream(device),
         arguments...);
}

/** Quotient and rest; a 64-bit division costs several times as much as one of 32 bits. */
__device__ inline std::int64_t divided(std::int64_t value, std::int64_t by, std::int64_t& rest) {
  std::int64_t quotient;
  if ((value | by) >> 31 == 0)
    quotient = static_cast<std::uint32_t>(value) / static_cast<std::uint32_t>(by);
  else
    quotient = value / by;
  rest = value - quotient * by;
  return quotient;
}

/** The same as one value. */
struct Split {
  std::int64_t quotient = 0, rest = 0;

  __device__ Split(std::int64_t value, std::int64_t by) { quotient = divided(value, by, rest); }
};

}  // namespace mezzo::gpu
