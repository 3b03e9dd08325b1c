// map_blocks: runs a function over aligned blocks of all operands of an elementwise op, for any
// strides and dtypes.
#pragma once

#include <cstdint>

#include "../core/half.h"
#include "../core/op.h"

namespace mezzo::cpu_kernels {

/** Whether loops over bf16 values widen them one by one instead of reading them through a buffer.
 *  They gain most with 512-bit vectors, and another copy of every loop makes the library larger. */
#if defined(__AVX512F__)
inline constexpr bool kLoopsReadBf16 = true;
#else
inline constexpr bool kLoopsReadBf16 = false;
#endif

/** Computes n results from n values of each operand. Entries of undefined operands are null. C is
 *  the compute type; the function converts values of another type V itself. */
template <class C, class V = C>
using BlockFn = void (*)(const V* const* in, C* const* out, std::int64_t n, const void* attrs);

/** One block function per compute type; null if the op does not compute in it. Optional are `bf16`,
 *  used instead of f32 if all operands are bf16 and no result is a wider floating type, and `u8`,
 *  used instead of i64 if all operands and results are bool or u8: they must give the same values,
 *  `bf16` after rounding to bf16. */
struct BlockFns {
  BlockFn<float> f32 = nullptr;
  BlockFn<double> f64 = nullptr;
  BlockFn<std::int64_t> i64 = nullptr;
  BlockFn<float, BFloat16> bf16 = nullptr;
  BlockFn<std::uint8_t> u8 = nullptr;
};

/** Elements per block. Blocks of several operands in f64 fit the L1 cache. */
inline constexpr std::int64_t kBlock = 1024;

/** Maximum number of operands of an elementwise op, outputs included. */
inline constexpr std::size_t kMaxBlockOperands = 8;

/** Applies `fns` in the compute type `compute` (f32, f64 or i64) to operands broadcast to the shape
 *  of the outputs. Converts each value on load and rounds each result once on store. Outputs may be
 *  strided and may be the same view as an input. Undefined operands are skipped. The division into
 *  blocks and threads depends on the shape alone, so results do not depend on the number of
 *  threads. */
MZ_API void map_blocks(const BlockFns& fns, DType compute, Inputs in, Outputs out,
                       const void* attrs);

}  // namespace mezzo::cpu_kernels
