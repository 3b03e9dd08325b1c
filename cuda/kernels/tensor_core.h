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

// ---- products with documented registers (PTX: mma.m16n8k16), from compute capability 8.0 on -----

/** True if the code being compiled may use them. */
#ifdef __CUDA_ARCH__
inline constexpr bool kHasLaneProducts = __CUDA_ARCH__ >= 800;
#else
inline constexpr bool kHasLaneProducts = true;
#endif
/** Returns true if kernels that use them run on a device. */
inline bool has_lane_products(int capability) { return has_tensor_cores<BFloat16>(capability); }

/** A lane's part of a 16 x 16 factor, two numbers per word. */
using LeftWords = Pack<std::uint32_t, 4>;
/** Returns the place of an element of a left factor in memory where the lanes' parts follow each
 *  other, so that each lane loads 16 bytes. */
__device__ constexpr int left_place(int row, int column) {
  const int lane = row % 8 * 4 + column % 8 / 2, word = row / 8 + column / 8 * 2;
  return lane * 8 + word * 2 + column % 2;
}
/** A lane's part of a 16 x 8 factor: word i has rows right_row(lane) + 8 i and the next, of column
 *  right_column(lane). */
using RightWords = Pack<std::uint32_t, 2>;
__device__ constexpr int right_row(int lane) { return lane % 4 * 2; }
__device__ constexpr int right_column(int lane) { return lane / 4; }
/** A lane's part of 16 x 8 sums: rows lane / 4 and that + 8, each of columns lane % 4 * 2 and the
 *  next. */
struct LaneSums {
  float value[4] = {};
};

/** Adds the product of two factors of T. All lanes of a warp must call it. */
template <class T>
__device__ inline void add_product(LaneSums& sums, const LeftWords& left, const RightWords& right) {
#ifdef __CUDA_ARCH__
#  define MZ_MULTIPLY(type)                                                                    \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                        \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"        \
                 : "+f"(sums.value[0]), "+f"(sums.value[1]), "+f"(sums.value[2]),              \
                   "+f"(sums.value[3])                                                         \
                 : "r"(left.item[0]), "r"(left.item[1]), "r"(left.item[2]), "r"(left.item[3]), \
                   "r"(right.item[0]), "r"(right.item[1]))
#  if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, BFloat16>)
    MZ_MULTIPLY("bf16");
  else
    MZ_MULTIPLY("f16");
#  endif
#  undef MZ_MULTIPLY
#elif !defined(__CUDACC__)
  emulator::multiply_lanes<T>(sums.value, left.item, right.item);
#endif
}

}  // namespace mezzo::gpu
