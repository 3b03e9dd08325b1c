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

/** The quotient and the rest of a division of numbers that are not negative. */
struct Split {
  std::int64_t quotient, rest;

  __device__ Split(std::int64_t number, std::int64_t divisor) {
    if ((number | divisor) <= 0xFFFFFFFF) {  // a 64-bit division costs several times as much
      quotient = static_cast<std::uint32_t>(number) / static_cast<std::uint32_t>(divisor);
      rest = static_cast<std::uint32_t>(number) % static_cast<std::uint32_t>(divisor);
    } else {
      quotient = number / divisor;
      rest = number % divisor;
    }
  }
};

}  // namespace mezzo::gpu
