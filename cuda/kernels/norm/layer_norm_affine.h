// AffineSums: the sums over rows that are layer_norm's gradients of weight and bias, joined in the
// launch that computes the gradient of x.
#pragma once

#include "../../../tensor/ops/norm/gradient_sums_cpu.h"
#include "../element.h"
#include "../kernel.h"
#include "../last_block.h"
#include "../lines.h"
#include "../tickets.h"

namespace mezzo::gpu {

using cpu_kernels::GradientSums;

/** The sums for the gradients of weight and bias: of chunks of rows, one chunk per block, then of
 *  groups of chunks, then of all. The last block of a group, and of all, adds them up, in an order
 *  that depends on the shape alone. */
struct AffineSums {
  GradientSums<float>*chunks = nullptr, *groups = nullptr;  // [chunks, columns], [groups, columns]
  unsigned* tickets = nullptr;                              // of each group, and then of all
  Array gw = {}, gb = {};

  static constexpr std::int64_t kGroup = 16;  // chunks
  static std::int64_t groups_of(std::int64_t chunks) { return blocks_for(chunks, kGroup); }
};

/** Returns the sum of `count` rows of `length` sums at one column, which other blocks wrote. */
__device__ inline GradientSums<float> column_sum(const GradientSums<float>* from, unsigned count,
                                                 std::int64_t length) {
  GradientSums<float> sum;
#pragma unroll 8
  for (unsigned i = 0; i < count; ++i) {
    GradientSums<float> one;
#ifdef __CUDA_ARCH__  // not from the cache of this multiprocessor
    asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];"
                 : "=f"(one.g), "=f"(one.gx)
                 : "l"(__cvta_generic_to_global(from + i * length)));
#else
    one = from[i * length];
#endif
    sum = sum + one;
  }
  return sum;
}

/** Adds up the sums after the calling block has written its chunk's. */
__device__ inline void join_affine(const AffineSums& sums, std::int64_t length, int* room) {
  const unsigned group_size = AffineSums::kGroup, group = blockIdx.x / group_size,
                 first = group * group_size, groups = (gridDim.x + group_size - 1) / group_size,
                 left = gridDim.x - first, members = left < group_size ? left : group_size;
  const auto put = [&](std::int64_t column, const GradientSums<float>& sum) {
    sums.gw.store<float>(column, sum.gx);
    sums.gb.store<float>(column, sum.g);
  };
  if (!is_last_block(sums.tickets + group, members, room)) return;
  for (std::int64_t column = threadIdx.x; column < length; column += blockDim.x) {
    const GradientSums<float> sum =
        column_sum(sums.chunks + first * length + column, members, length);
    if (groups == 1)
      put(column, sum);
    else
      sums.groups[group * length + column] = sum;
  }
  if (groups == 1 || !is_last_block(sums.tickets + groups, groups, room)) return;
  for (std::int64_t column = threadIdx.x; column < length; column += blockDim.x)
    put(column, column_sum(sums.groups + column, groups, length));
}

}  // namespace mezzo::gpu
