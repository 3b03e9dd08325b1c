// Conversions of contiguous blocks between element types: widening, and narrowing with one
// rounding.
#pragma once

#include <cstdint>

#include "../core/dtype.h"
#include "../core/half.h"
#include "../core/macros.h"

namespace mezzo::cpu_kernels {

/** Converts exactly; a signalling f16 NaN becomes quiet. */
MZ_API void widen(const Half* from, float* to, std::int64_t n);
MZ_API void widen(const BFloat16* from, float* to, std::int64_t n);

/** Rounds to nearest even, bit for bit as the constructors of Half and BFloat16 do. */
MZ_API void narrow(const float* from, Half* to, std::int64_t n);
MZ_API void narrow(const float* from, BFloat16* to, std::int64_t n);

/** Rounds n numbers in place as narrow() and widen() do; leaves them if `dtype` is not a 16-bit
 * type.
 */
MZ_API void round_to(DType dtype, float* x, std::int64_t n);

/** Converts n elements from one type to another; the blocks must not overlap. To a floating type:
 *  rounded once, to nearest even; values beyond the largest become infinity. From floating to
 *  integer: truncated toward zero and saturated; NaN gives 0. Between integers: modulo 2^bits. To
 *  bool: true if nonzero, also for NaN. */
MZ_API void convert(DType from_type, const void* from, DType to_type, void* to, std::int64_t n);

}  // namespace mezzo::cpu_kernels
