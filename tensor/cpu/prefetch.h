// prefetch_rows: brings rows of memory into the cache while something else is computed.
#pragma once

#include <cstdint>

#include "../core/macros.h"

namespace mezzo::cpu_kernels {

/** Prefetches the first `bytes` bytes of each row, for writing too; `stride` is in bytes. Always
 *  inline, because g++ deletes calls of functions that only prefetch. */
MZ_ALWAYS_INLINE void prefetch_rows(const char* row, std::int64_t rows, std::int64_t stride,
                                    std::int64_t bytes) {
  constexpr std::int64_t kLine = 64;
  for (std::int64_t i = 0; i < rows; ++i, row += stride)
    for (std::int64_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at, 1);
}

}  // namespace mezzo::cpu_kernels
