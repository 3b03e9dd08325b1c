// CUB's radix sort on the emulated device: the functions that Mezzo calls, computed on the host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "../launch.h"

namespace cub {

struct DeviceRadixSort {
  /** Sorts n keys by the bits [begin, end), keeping the order of keys equal in them. */
  static int SortKeys(void* temporary, std::size_t& bytes, const std::uint64_t* in,
                      std::uint64_t* out, std::int64_t n, int begin, int end, cudaStream_t stream) {
    if (begin < 0 || end > 64 || begin >= end || n < 0) return 1;
    const int passes = (end - begin + 7) / 8;
    const int launches = 2 * (2 + passes);  // kernels, and as many fills of memory
    return emulated::enqueue(
        temporary, bytes, 1024 + static_cast<std::size_t>(n) / 4, launches, stream, [=] {
          const std::uint64_t mask = ~std::uint64_t{0} >> (64 - (end - begin));
          std::vector<std::uint64_t> keys(in, in + n);
          std::stable_sort(keys.begin(), keys.end(), [=](std::uint64_t a, std::uint64_t b) {
            return (a >> begin & mask) < (b >> begin & mask);
          });
          std::copy(keys.begin(), keys.end(), out);
        });
  }
};

}  // namespace cub
