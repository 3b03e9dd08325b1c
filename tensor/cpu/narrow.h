// narrow_row: rounds a short row of f32 numbers to another dtype without a call for most of it.
#pragma once

#if defined(__AVX512BF16__)
#  include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

#include "convert.h"

namespace mezzo::cpu_kernels {

#if defined(__AVX512BF16__)
/** Rounds 32 numbers by the CPU's instruction, which takes subnormals as zero and otherwise gives
 *  the same bits as BFloat16's constructor. Returns false, and writes nothing, if one is
 *  subnormal. */
inline bool narrow_normal(const float* from, BFloat16* to) {
  constexpr int kSubnormal = 0x20;
  const __m512 low = _mm512_loadu_ps(from), high = _mm512_loadu_ps(from + 16);
  if (_mm512_fpclass_ps_mask(low, kSubnormal) | _mm512_fpclass_ps_mask(high, kSubnormal))
    return false;
  const __m512bh rounded = _mm512_cvtne2ps_pbh(high, low);
  std::memcpy(to, &rounded, sizeof rounded);
  return true;
}
#endif

/** Converts n numbers, as convert() does; a block of 32 to bf16 costs no call. */
template <class T> void narrow_row(const T* from, DType dtype, char* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512BF16__)
  if constexpr (sizeof(T) == sizeof(float))
    if (dtype == DType::bf16)
      while (i + 32 <= n && narrow_normal(from + i, reinterpret_cast<BFloat16*>(to) + i)) i += 32;
#endif
  if (i < n)
    convert(dtype_of<T>(), from + i, dtype, to + i * static_cast<std::int64_t>(item_size(dtype)),
            n - i);
}

}  // namespace mezzo::cpu_kernels
