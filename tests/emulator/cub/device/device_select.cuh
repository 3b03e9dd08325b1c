// CUB's selection on the emulated device: the function that Mezzo calls, computed on the host.
#pragma once

#include <cstdint>

#include "../launch.h"

namespace cub {

struct DeviceSelect {
  /** Stores the selected ones of n numbers to `out`, and how many they are. */
  template <class In, class Out, class Selects>
  static int If(void* temporary, std::size_t& bytes, In in, Out out, std::int64_t* count, int n,
                Selects selects, cudaStream_t stream) {
    if (n < 0) return 1;
    return emulated::enqueue(temporary, bytes, 256 + static_cast<std::size_t>(n) / 64, 2, stream,
                             [=] {
                               std::int64_t found = 0;
                               for (int i = 0; i < n; ++i)
                                 if (selects(in[i])) out[found++] = in[i];
                               *count = found;
                             });
  }
};

}  // namespace cub
