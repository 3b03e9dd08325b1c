// map_blocks: runs a function over aligned blocks of all operands of an elementwise op, whatever their strides and dtypes.
// Sees: op.h.
// Read next: elementwise_kernel.h (the functions that run on blocks), block_map.cpp.
#pragma once

#include <cstdint>

#include "../op.h"

namespace mezzo::cpu_kernels {

/** Computes n results from n values of each operand. Entries are null for operands that are undefined. */
template <class C>
using BlockFn = void (*)(const C* const* in, C* const* out, std::int64_t n, const void* attrs);

/** One block function per type that arithmetic runs in; null where the op does not compute in it. */
struct BlockFns {
  BlockFn<float> f32 = nullptr;
  BlockFn<double> f64 = nullptr;
  BlockFn<std::int64_t> i64 = nullptr;
};

/** Elements per block: a handful of operands of this many doubles fit the first-level cache. */
inline constexpr std::int64_t kBlock = 1024;

inline constexpr std::size_t kMaxBlockOperands = 8;

/** Applies `fns` in the arithmetic of `compute` (f32, f64 or i64) to operands broadcast to the shape of the outputs. Each value is converted on
 *  load, each result rounded once on store; outputs may be strided and may be the same view as an input. Undefined operands are skipped.
 *  The cut into blocks and threads depends on the shape alone, so results do not depend on the number of threads. */
MZ_API void map_blocks(const BlockFns& fns, DType compute, Inputs in, Outputs out, const void* attrs);

}  // namespace mezzo::cpu_kernels
