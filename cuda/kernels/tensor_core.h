// Products of 16 x 16 matrices by a warp on Tensor Cores: 16-bit factors, f32 sums. The
// instructions are ldmatrix and mma, whose mapping of elements to lanes PTX documents; the emulated
// build has them in tests/emulator/tensor_core.h.
//
// All lanes of a warp take part in each operation, with the same arguments.
#pragma once

#include "element.h"

namespace mezzo::gpu {

inline constexpr int kPatch = 16;

/** Lowest compute capability (times 10) that supports a type's products. */
template <class T> inline constexpr int kTensorCapability = 75;
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

/** True if the code being compiled may use products in kernels that need compute capability 8.0 for
 *  other reasons. */
#ifdef __CUDA_ARCH__
inline constexpr bool kHasLaneProducts = __CUDA_ARCH__ >= 800;
#else
inline constexpr bool kHasLaneProducts = true;
#endif
/** Returns true if such kernels run on a device. */
inline bool has_lane_products(int capability) { return has_tensor_cores<BFloat16>(capability); }

// ---- a lane's part of matrices ------------------------------------------------------------------

/** Of a 16 x 16 left factor, two numbers per word: word i has row lane / 4 + i % 2 * 8, columns
 *  lane % 4 * 2 + i / 2 * 8 and the next. */
using LeftWords = Pack<std::uint32_t, 4>;
/** Returns the place of an element of a left factor in memory where the lanes' parts follow each
 *  other, so that each lane loads 16 bytes. */
__device__ constexpr int left_place(int row, int column) {
  const int lane = row % 8 * 4 + column % 8 / 2, word = row / 8 + column / 8 * 2;
  return lane * 8 + word * 2 + column % 2;
}
/** Of a 16 x 8 right factor: word i has rows right_row(lane) + 8 i and the next, of column
 *  right_column(lane). */
using RightWords = Pack<std::uint32_t, 2>;
__device__ constexpr int right_row(int lane) { return lane % 4 * 2; }
__device__ constexpr int right_column(int lane) { return lane / 4; }
/** Of 16 x 8 sums: rows lane / 4 and that + 8, each of columns lane % 4 * 2 and the next. */
struct LaneSums {
  float value[4] = {};

  /** Multiplies the two rows. */
  __device__ void scale(float first, float second) {
    for (int i = 0; i < 4; ++i) value[i] *= i < 2 ? first : second;
  }
};
/** Returns the first of the calling lane's two rows of sums; the other is 8 rows below. */
__device__ inline int first_row_of_sums() { return static_cast<int>(threadIdx.x) % kWarpSize / 4; }

/** Of 16 x 16 matrices: two of 16 x 8 side by side. */
struct RightPatch {
  RightWords half[2];

  __device__ explicit RightPatch(const Pack<std::uint32_t, 4>& words)
      : half{{{words.item[0], words.item[1]}}, {{words.item[2], words.item[3]}}} {}
};
struct SumPatch {
  LaneSums half[2];

  __device__ void scale(float first, float second) {
    for (LaneSums& sums : half) sums.scale(first, second);
  }
  __device__ void add(const SumPatch& other, float factor) {
    for (int h = 0; h < 2; ++h)
      for (int i = 0; i < 4; ++i) half[h].value[i] += other.half[h].value[i] * factor;
  }
};

// ---- loads and stores ---------------------------------------------------------------------------

namespace detail {

/** Loads the quarters of a row-major 16 x 16 matrix in shared memory, or the transposed quarters,
 * in the order of columns (top left, bottom left, ...) or of rows. A lane gets row lane / 4,
 * columns lane % 4 * 2 and the next, of each. The matrix's rows begin at multiples of 16 bytes. */
template <bool kTransposed, bool kByRows, class T>
__device__ inline LeftWords load_quarters(const T* from, int pitch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize, second = lane / 8 % 2 * 8,
            third = lane / 16 * 8;
  // the lane gives the address of row lane % 8 of quarter lane / 8
  const T* const row =
      from + (lane % 8 + (kByRows ? third : second)) * pitch + (kByRows ? second : third);
  LeftWords words;
#ifdef __CUDA_ARCH__
#  define MZ_LOAD_MATRICES(form)                                                            \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" form ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"(words.item[0]), "=r"(words.item[1]), "=r"(words.item[2]),           \
                   "=r"(words.item[3])                                                      \
                 : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))           \
                 : "memory")
#  if __CUDA_ARCH__ >= 750
  if constexpr (kTransposed)
    MZ_LOAD_MATRICES(".trans");
  else
    MZ_LOAD_MATRICES("");
#  endif
#  undef MZ_LOAD_MATRICES
#elif !defined(__CUDACC__)
  emulator::load_matrices<kTransposed>(words.item, row);
#endif
  return words;
}

}  // namespace detail

/** Returns a left factor from a row-major matrix in shared memory, whose rows begin at multiples of
 *  16 bytes. */
template <class T> __device__ inline LeftWords load_left(const T* from, int pitch) {
  return detail::load_quarters<false, false>(from, pitch);
}
/** Returns a right factor from a row-major matrix. */
template <class T> __device__ inline RightPatch load_right(const T* from, int pitch) {
  return RightPatch(detail::load_quarters<true, false>(from, pitch));
}
/** Returns a right factor, the transposed of a row-major matrix. */
template <class T> __device__ inline RightPatch load_transposed(const T* from, int pitch) {
  return RightPatch(detail::load_quarters<false, true>(from, pitch));
}

/** Stores a lane's sums of eight columns to a row-major matrix. `to` and pitch are even. */
__device__ inline void store_sums(float* to, int pitch, const LaneSums& sums) {
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
  for (int half = 0; half < 2; ++half)
    *reinterpret_cast<Pack<float, 2>*>(to + (first_row_of_sums() + half * 8) * pitch +
                                       column) = {{sums.value[2 * half], sums.value[2 * half + 1]}};
}
__device__ inline void store_patch(float* to, const SumPatch& patch, int pitch) {
  for (int h = 0; h < 2; ++h) store_sums(to + h * 8, pitch, patch.half[h]);
}

// ---- products -----------------------------------------------------------------------------------

/** Adds the product of two factors of T. All lanes of a warp must call it. */
template <class T>
__device__ inline void add_product(LaneSums& sums, const LeftWords& left, const RightWords& right) {
#ifdef __CUDA_ARCH__
#  define MZ_SUMS "+f"(sums.value[0]), "+f"(sums.value[1]), "+f"(sums.value[2]), "+f"(sums.value[3])
#  define MZ_MULTIPLY(type)                                                                    \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                        \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"        \
                 : MZ_SUMS                                                                     \
                 : "r"(left.item[0]), "r"(left.item[1]), "r"(left.item[2]), "r"(left.item[3]), \
                   "r"(right.item[0]), "r"(right.item[1]))
#  if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, BFloat16>)
    MZ_MULTIPLY("bf16");
  else
    MZ_MULTIPLY("f16");
#  elif __CUDA_ARCH__ >= 750
  static_assert(std::is_same_v<T, Half>);
  for (int i = 0; i < 2; ++i)
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : MZ_SUMS
        : "r"(left.item[2 * i]), "r"(left.item[2 * i + 1]), "r"(right.item[i]));
#  endif
#  undef MZ_MULTIPLY
#  undef MZ_SUMS
#elif !defined(__CUDACC__)
  emulator::multiply_lanes<T>(sums.value, left.item, right.item);
#endif
}
template <class T>
__device__ inline void add_product(SumPatch& sums, const LeftWords& left, const RightPatch& right) {
  for (int h = 0; h < 2; ++h) add_product<T>(sums.half[h], left, right.half[h]);
}

}  // namespace mezzo::gpu
