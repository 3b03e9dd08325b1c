// Combines the elements of several processes: the arithmetic of an all-reduce.
#pragma once

#include <cstdint>
#include <span>

#include "../comm/reduction.h"
#include "../core/dtype.h"
#include "../core/macros.h"

namespace mezzo::cpu_kernels {

/** Sets into[i] = op(into[i], from[i]) for n elements of a dtype other than bool. 16-bit elements
 *  are added in f32 and rounded once. The result does not depend on the order of the operands,
 *  except for the payload of a NaN sum. */
MZ_API void combine(DType dtype, comm::Op op, const void* from, void* into, std::int64_t n);

/** Sets out[i] to the sum of the 16-bit elements parts[p][i], added in f32 in the order of p,
 *  multiplied by `factor` and rounded once. `out` may be one of the parts. */
MZ_API void sum_low_in_f32(DType dtype, std::span<const void* const> parts, float factor, void* out,
                           std::int64_t n);

/** Multiplies n floating-point elements, in f32 (f64 for f64). */
MZ_API void multiply(DType dtype, double factor, void* data, std::int64_t n);

}  // namespace mezzo::cpu_kernels
