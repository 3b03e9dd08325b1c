// enqueue(): the launches of a function of CUB on the emulated device.
#pragma once

#include <cstddef>
#include <cstring>

#include "../cuda.h"

using cudaStream_t = void*;

namespace cub::emulated {

/** Enqueues `run` as the last of some launches. As in CUB, a call without temporary storage only
 *  returns how many bytes of it the function needs. Returns 0 for success. */
template <class Run>
int enqueue(void* temporary, std::size_t& bytes, std::size_t needed, int launches,
            cudaStream_t stream, const Run& run) {
  if (!temporary) {
    bytes = needed;
    return 0;
  }
  if (bytes < needed) return 1;
  for (int i = 0; i + 1 < launches; ++i)
    mezzo::emulator::submit({"CUB", 0, stream}, [=] {
      const mezzo::emulator::MemoryScope scope;
      std::memset(temporary, 0xA5, needed);
    });
  mezzo::emulator::submit({"CUB", 0, stream}, [=] {
    const mezzo::emulator::MemoryScope scope;
    std::memset(temporary, 0xA5, needed);
    run();
  });
  return 0;
}

}  // namespace cub::emulated
