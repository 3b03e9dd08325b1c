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

/** The sums for the gradients of weight and bias, of rows of packs: of chunks of rows, one chunk
 * per block, then of groups of chunks, then of all. The last block of a group, and of all, adds
 * them up, in an order that depends on the shape alone. */
struct AffineSums {
  GradientSums<float>*chunks = nullptr, *groups = nullptr;  // [chunks, columns], [groups, columns]
  unsigned* tickets = nullptr;                              // of each group, and then of all
  Array gw = {}, gb = {};

  static constexpr std::int64_t kGroup = 16;  // chunks
  static std::int64_t groups_of(std::int64_t chunks) { return blocks_for(chunks, kGroup); }
};

/** The sums of two adjacent columns. */
using TwoSums = Pack<GradientSums<float>, 2>;

/** Calls put(column, sum) for the calling thread's columns, with the sum of `count` rows of
 * `length` sums, an even number, which other blocks wrote. Loads several rows at once. */
template <class Put>
__device__ void add_rows(const GradientSums<float>* from, unsigned count, std::int64_t length,
                         const Put& put) {
  for (std::int64_t column = threadIdx.x * 2; column < length; column += blockDim.x * 2) {
    TwoSums sums = {};
#pragma unroll 16
    for (unsigned i = 0; i < count; ++i) {
      TwoSums row;
      const auto* const place = from + i * length + column;
#ifdef __CUDA_ARCH__  // not from the cache of this multiprocessor
      asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(row.item[0].g), "=f"(row.item[0].gx), "=f"(row.item[1].g),
                     "=f"(row.item[1].gx)
                   : "l"(__cvta_generic_to_global(place)));
#else
      row = *reinterpret_cast<const TwoSums*>(place);
#endif
#pragma unroll
      for (int k = 0; k < 2; ++k) sums.item[k] = sums.item[k] + row.item[k];
    }
#pragma unroll
    for (int k = 0; k < 2; ++k) put(column + k, sums.item[k]);
  }
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
  const GradientSums<float>* const chunks = sums.chunks + first * length;
  if (groups == 1) return add_rows(chunks, members, length, put);
  add_rows(chunks, members, length, [&](std::int64_t column, const GradientSums<float>& sum) {
    sums.groups[group * length + column] = sum;
  });
  if (is_last_block(sums.tickets + groups, groups, room))
    add_rows(sums.groups, groups, length, put);
}

}  // namespace mezzo::gpu
