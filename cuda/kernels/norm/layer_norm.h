// Shared parts of the kernels of layer_norm, of rms_norm and of their gradients.
#pragma once

#include "../../../tensor/ops/norm/gradient_sums_cpu.h"
#include "../../../tensor/ops/norm/layer_norm.h"
#include "../line_piece.h"
#include "../typed.h"

namespace mezzo::gpu {

/** Starts to load the 16 bytes at an address into the cache of the device. */
__device__ inline void prefetch(const void* address) {
#ifdef __CUDA_ARCH__
  asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(address)));
#else
  static_cast<void>(address);
#endif
}

/** Starts to load the calling thread's packs of `width` elements of a row, of one chunk. */
template <int width, class T>
__device__ void prefetch_row(const Team& team, int packs, const T* row) {
#pragma unroll
  for (int j = 0; j < kHeldPacks; ++j)
    if (const int at = j * team.lanes + team.lane; at < packs) prefetch(row + at * width);
}

/** Returns the sums of a pack of T and as many elements of B, rounded to T. */
template <class T, class B>
__device__ PackWords sum_of(const PackWords& x, const WordsOf<B, kPerPack<T>>& y) {
  constexpr int kWidth = kPerPack<T>;
  float a[kWidth], b[kWidth];
  widen<T>(x, a);
  widen_part<kWidth, B>(y, b);
#pragma unroll
  for (int k = 0; k < kWidth; ++k) a[k] += b[k];
  return narrowed_words<T, kWidth>(a);
}

/** Returns the dtype of weight and bias; that of x if there are none. */
template <class Norm> DType affine_dtype(const Norm& norm) {
  return norm.weight.data ? norm.weight.dtype : norm.x.dtype;
}

/** Writes a + b to `out`, which may be one of them. */
void add_into(const Tensor& a, const Tensor& b, Tensor& out);

/** Operands of the gradients. */
struct RowNormBackward {
  Lines rows;
  Array g, x, weight, mean, rstd, gx;
  Array rest = {};      // of packs: the sum's other gradient
  void* low = nullptr;  // of packs: gx, rounded to the 16-bit dtype of g
};

/** Statistics shared by a row's elements. */
template <class C> struct RowStatistics {
  C mean, rstd;
  __device__ RowStatistics(const RowNormBackward& norm, const LineWalk& walk)
      : mean(walk.has_line ? norm.mean.load_or(walk.line, C(0)) : C(0)),
        rstd(walk.has_line ? norm.rstd.load<C>(walk.line) : C(0)) {}
  __device__ RowStatistics(const RowNormBackward& norm, const Team& team)
      : mean(team.has_row ? norm.mean.load_or(team.row, C(0)) : C(0)),
        rstd(team.has_row ? norm.rstd.load<C>(team.row) : C(0)) {}
  __device__ C normalised(C x) const { return (x - mean) * rstd; }
  /** Returns gx of an element; `sums` are those of gw and gw * xh over the row. */
  __device__ C gradient(C gw, C xh, const cpu_kernels::GradientSums<C>& sums,
                        const RowNormBackward& norm) const {
    const C count = static_cast<C>(norm.rows.length),
            centre = norm.mean.data ? sums.g / count : C(0);
    return rstd * (gw - centre - xh * (sums.gx / count));
  }
};

/** Computes the gradient of x only, for any layout. */
void row_norm_gradient(const RowNormBackward& norm, DType dtype, Device device);
/** Computes the gradients of x, weight and bias, for any layout. */
void row_norm_gradients(const RowNormBackward& norm, DType dtype, Device device, Outputs out);

}  // namespace mezzo::gpu
