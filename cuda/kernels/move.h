// Kernels that move elements unchanged: each element of the result is one of the operand's, or a constant.
// Sees: items.h, lines.h.
// Read next: triangle.cu, placement.cu, unfold.cu (the moves).
//
// A move, passed to the kernel by value, states `std::int64_t source(std::int64_t i)`: where element number i of the row-major result lies in the
// operand, in elements; negative for none.
#pragma once

#include "../../tensor/cpu/convert.h"
#include "../../tensor/cpu/word.h"
#include "items.h"
#include "lines.h"

namespace mezzo::gpu {

inline constexpr int kMoveThreads = 256;
/** Elements per thread, a block's width apart. */
inline constexpr int kMoves = 4;

template <class Word, class Move>
__global__ void __launch_bounds__(kMoveThreads)
    move_kernel(const __grid_constant__ Move move, const Word* x, Word* y, std::int64_t count,
                const Word constant) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kMoveThreads * kMoves + threadIdx.x;
  Word values[kMoves];
#pragma unroll
  for (int k = 0; k < kMoves; ++k) {
    const std::int64_t i = first + k * kMoveThreads;
    const std::int64_t source = i < count ? move.source(i) : -1;
    values[k] = source < 0 ? constant : x[source];
  }
#pragma unroll
  for (int k = 0; k < kMoves; ++k) {
    const std::int64_t i = first + k * kMoveThreads;
    if (i < count) y[i] = values[k];
  }
}

/** y = the elements of x that `move` names, or `constant`. */
template <class Move>
void move_elements(const Tensor& x, const Tensor& y, double constant, const Move& move) {
  const std::int64_t count = y.numel();
  cpu_kernels::visit_word(y.dtype(), [&]<class Word>(std::type_identity<Word>) {
    Word bits;
    cpu_kernels::convert(DType::f64, &constant, y.dtype(), &bits, 1);
    launch(&move_kernel<Word, Move>,
           {.blocks = blocks_for(count, kMoveThreads * kMoves), .threads = kMoveThreads},
           current_stream(y.device()), move, static_cast<const Word*>(x.raw_data()),
           static_cast<Word*>(y.raw_data()), count, bits);
  });
}

}  // namespace mezzo::gpu
