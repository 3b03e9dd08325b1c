// Conversions of contiguous blocks between element types: widening, and narrowing with one rounding.
// Sees: dtype.h, half.h.
// Read next: block_map.h (who converts blocks around float loops).
#pragma once

#include <cstdint>

#include "../dtype.h"
#include "../half.h"
#include "../macros.h"

namespace mezzo::cpu_kernels {

/** Exact; a signalling f16 NaN becomes quiet. */
MZ_API void widen(const Half* from, float* to, std::int64_t n);
MZ_API void widen(const BFloat16* from, float* to, std::int64_t n);

/** To nearest even, as the constructors of Half and BFloat16 do, bit for bit. */
MZ_API void narrow(const float* from, Half* to, std::int64_t n);
MZ_API void narrow(const float* from, BFloat16* to, std::int64_t n);

/** n elements of one type as another; the blocks must not overlap.
 *  To a floating type: rounded once, to nearest even; beyond the largest value to infinity. From floating to integer: truncated toward zero and
 *  saturated, NaN gives 0. Between integers: modulo 2^bits. To bool: whether nonzero (NaN is). */
MZ_API void convert(DType from_type, const void* from, DType to_type, void* to, std::int64_t n);

}  // namespace mezzo::cpu_kernels
