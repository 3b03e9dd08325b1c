// Products of 16 x 16 matrices by a warp on Tensor Cores: 16-bit factors, f32 sums. Aliases for the
// forms of <mma.h> in use; the emulated build takes them from tests/emulator/wmma.h.
//
// All lanes of a warp take part in each operation, with the same arguments. Patches in memory begin
// at multiples of 32 bytes, their rows at multiples of 16. The mapping of elements to lanes is
// unspecified, but it is the same for all sums.
#pragma once

#include "element.h"

#ifdef __CUDACC__
#  include <mma.h>
#endif

namespace mezzo::gpu {

namespace wmma = nvcuda::wmma;

inline constexpr int kPatch = 16;

/** Lowest compute capability (times 10) that supports a type's products. */
template <class T> inline constexpr int kTensorCapability = 70;
template <> inline constexpr int kTensorCapability<BFloat16> = 80;

/** True if the code being compiled may use them, as host code and the emulator may. */
#ifdef __CUDA_ARCH__
template <class T>
inline constexpr bool kHasTensorCores = __CUDA_ARCH__ >= 10 * kTensorCapability<T>;
#else
template <class T> inline constexpr bool kHasTensorCores = true;
#endif

/** Returns true if kernels that use a type's products run on a device: both the device and the code
 *  that it selects, that of the newest architecture not newer than itself, must support them. */
template <class T> bool has_tensor_cores(int capability) {
#ifdef __CUDACC__
  constexpr int kCompiledFor[] = {__CUDA_ARCH_LIST__};
#else
  constexpr int kCompiledFor[] = {10 * kTensorCapability<T>};
#endif
  for (const int arch : kCompiledFor)
    if (arch >= 10 * kTensorCapability<T> && arch <= 10 * capability) return true;
  return false;
}

namespace detail {
#ifdef __CUDACC__
template <class T> struct TensorElement;
template <> struct TensorElement<Half> { using type = __half; };
template <> struct TensorElement<BFloat16> { using type = __nv_bfloat16; };
#else
template <class T> struct TensorElement { using type = T; };
#endif
}  // namespace detail
/** The element type of the operations. */
template <class T> using TensorElement = typename detail::TensorElement<T>::type;

/** Factors: the left one from a row-major matrix, the right one from a row-major matrix or a
 *  transposed one. */
template <class T>
using LeftPatch =
    wmma::fragment<wmma::matrix_a, kPatch, kPatch, kPatch, TensorElement<T>, wmma::row_major>;
template <class T>
using RightPatch =
    wmma::fragment<wmma::matrix_b, kPatch, kPatch, kPatch, TensorElement<T>, wmma::row_major>;
template <class T>
using RightTransposed =
    wmma::fragment<wmma::matrix_b, kPatch, kPatch, kPatch, TensorElement<T>, wmma::col_major>;
using SumPatch = wmma::fragment<wmma::accumulator, kPatch, kPatch, kPatch, float>;

template <class Patch, class T>
__device__ inline void load_patch(Patch& patch, const T* from, int pitch) {
  wmma::load_matrix_sync(patch, reinterpret_cast<const TensorElement<T>*>(from),
                         static_cast<unsigned>(pitch));
}
__device__ inline void store_patch(float* to, const SumPatch& patch, int pitch) {
  wmma::store_matrix_sync(to, patch, static_cast<unsigned>(pitch), wmma::mem_row_major);
}
__device__ inline void clear_patch(SumPatch& patch) { wmma::fill_fragment(patch, 0.0f); }

/** The row of each of a lane's sums, found by loading a matrix of row numbers. */
struct PatchRows {
  int row[SumPatch::num_elements];

  /** `room` is memory shared by the warp, with 16 rows; it may be reused afterwards. */
  __device__ PatchRows(float* room, int pitch) {
    for (int i = static_cast<int>(threadIdx.x) % kWarpSize; i < kPatch * kPatch; i += kWarpSize)
      room[i / kPatch * pitch + i % kPatch] = static_cast<float>(i / kPatch);
    __syncwarp();
    SumPatch numbers;
    wmma::load_matrix_sync(numbers, room, static_cast<unsigned>(pitch), wmma::mem_row_major);
    for (int i = 0; i < SumPatch::num_elements; ++i) row[i] = static_cast<int>(numbers.x[i]);
    __syncwarp();
  }
};

}  // namespace mezzo::gpu
