// CUB's scans on the emulated device: the functions that Mezzo calls, computed on the host.
#pragma once

#include <cstdint>

#include "../launch.h"

namespace cub {

struct DeviceScan {
  /** Sets out[i] to the sum of in[0] to in[i - 1]. */
  static int ExclusiveSum(void* temporary, std::size_t& bytes, const std::int64_t* in,
                          std::int64_t* out, int n, cudaStream_t stream) {
    if (n < 0) return 1;
    return emulated::enqueue(temporary, bytes, needed(n), 2, stream, [=] {
      std::int64_t sum = 0;
      for (int i = 0; i < n; ++i) {
        const std::int64_t own = in[i];
        out[i] = sum;
        sum += own;
      }
    });
  }
  /** Sets out[i] to the combination of in[0] to in[i]. */
  template <class In, class Out, class Combine>
  static int InclusiveScan(void* temporary, std::size_t& bytes, In in, Out out, Combine combine,
                           int n, cudaStream_t stream) {
    if (n < 0) return 1;
    return emulated::enqueue(temporary, bytes, needed(n), 2, stream, [=] {
      if (n == 0) return;
      auto sum = in[0];
      out[0] = sum;
      for (int i = 1; i < n; ++i) out[i] = sum = combine(sum, in[i]);
    });
  }

 private:
  static std::size_t needed(int n) { return 256 + static_cast<std::size_t>(n) / 64; }
};

}  // namespace cub
