// Kernels that copy elements unchanged: each result element is an element of the operand or a
// constant.
//
// A move, passed to the kernel by value, defines `std::int64_t source(std::int64_t i)`: the offset
// in the operand of element i of the row-major result; negative for the constant.
#pragma once

#include "../../tensor/cpu/convert.h"
#include "../../tensor/cpu/word.h"
#include "items.h"
#include "lines.h"

namespace mezzo::gpu {

inline constexpr int kMoveThreads = 256;
/** Elements per thread, one block width apart. */
inline constexpr int kMoves = 4;

template <class Word, class Move>
__global__ void __launch_bounds__(kMoveThreads)
    move_kernel(const Move __grid_constant__ move, const Word* x, Word* y, std::int64_t count,
                const Word constant) {
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * kMoveThreads * kMoves + threadIdx.x;
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

/** Sets each element of y to the element of x that `move` selects, or to `constant`. */
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
