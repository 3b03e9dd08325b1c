// CUB's radix sort on the emulated device: the functions that Mezzo calls, computed on the host. As
// in CUB, a call without temporary storage returns how many bytes of it the sort needs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "../../cuda.h"

using cudaStream_t = void*;

namespace cub {

struct DeviceRadixSort {
  /** Sorts n keys by the bits [begin, end), keeping the order of keys equal in them. */
  static int SortKeys(void* temporary, std::size_t& bytes, const std::uint64_t* in,
                      std::uint64_t* out, std::int64_t n, int begin, int end, cudaStream_t stream) {
    const std::size_t needed = 1024 + static_cast<std::size_t>(n) / 4;
    if (!temporary) {
      bytes = needed;
      return 0;
    }
    if (bytes < needed || begin < 0 || end > 64 || begin >= end || n < 0) return 1;
    mezzo::emulator::submit({"CUB", 0, stream}, [=] {
      const mezzo::emulator::MemoryScope scope;
      std::memset(temporary, 0xA5, needed);
      const std::uint64_t mask = ~std::uint64_t{0} >> (64 - (end - begin));
      std::vector<std::uint64_t> keys(in, in + n);
      std::stable_sort(keys.begin(), keys.end(), [=](std::uint64_t a, std::uint64_t b) {
        return (a >> begin & mask) < (b >> begin & mask);
      });
      std::copy(keys.begin(), keys.end(), out);
    });
    return 0;
  }
};

}  // namespace cub
