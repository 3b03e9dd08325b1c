// transpose: transposes a matrix in memory, in squares that fit the registers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "simd.h"

namespace mezzo::cpu_kernels {

namespace detail {

/** Loads and stores elements of `kBytes` in vectors, widening 16-bit ones. Moves bits without
 *  interpreting them as numbers. */
template <std::size_t kBytes> struct Mover {
  using S = Simd<float>;
  static typename S::V load(const void* p) {
    typename S::V v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(void* p, typename S::V v) { std::memcpy(p, &v, sizeof v); }
};
template <> struct Mover<2> {
  using S = Simd<float>;
  typedef std::uint16_t Narrow __attribute__((vector_size(kVectorBytes / 2)));
  typedef std::uint32_t Wide __attribute__((vector_size(kVectorBytes)));
  static S::V load(const void* p) {
    Narrow bits;
    std::memcpy(&bits, p, sizeof bits);
    return (S::V) __builtin_convertvector(bits, Wide);
  }
  static void store(void* p, S::V v) {
    const Narrow bits = __builtin_convertvector((Wide)v, Narrow);
    std::memcpy(p, &bits, sizeof bits);
  }
};
template <> struct Mover<8> {
  using S = Simd<double>;
  static S::V load(const void* p) {
    S::V v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(void* p, S::V v) { std::memcpy(p, &v, sizeof v); }
};

template <class T>
void transpose_edge(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride,
                    std::int64_t rows, std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r)
      std::memcpy(to + c * to_stride + r, from + r * from_stride + c, sizeof(T));
}

}  // namespace detail

/** Sets to[c * to_stride + r] = from[r * from_stride + c]. T is any type of 1, 2, 4 or 8 bytes. */
template <class T>
void transpose(const T* from, std::int64_t from_stride, T* to, std::int64_t to_stride,
               std::int64_t rows, std::int64_t columns) {
  if constexpr (sizeof(T) == 1) {
    detail::transpose_edge(from, from_stride, to, to_stride, rows, columns);
  } else {
    using Mover = detail::Mover<sizeof(T)>;
    using S = typename Mover::S;
    constexpr std::int64_t kSide = S::kWidth;
    const std::int64_t whole_rows = rows / kSide * kSide, whole_columns = columns / kSide * kSide;
    for (std::int64_t r = 0; r < whole_rows; r += kSide)
      for (std::int64_t c = 0; c < whole_columns; c += kSide) {
        typename S::V square[kSide];
        MZ_UNROLL
        for (int i = 0; i < kSide; ++i) square[i] = Mover::load(from + (r + i) * from_stride + c);
        S::transpose(square);
        MZ_UNROLL
        for (int i = 0; i < kSide; ++i) Mover::store(to + (c + i) * to_stride + r, square[i]);
      }
    detail::transpose_edge(from + whole_columns, from_stride, to + whole_columns * to_stride,
                           to_stride, whole_rows, columns - whole_columns);
    detail::transpose_edge(from + whole_rows * from_stride, from_stride, to + whole_rows, to_stride,
                           rows - whole_rows, columns);
  }
}

}  // namespace mezzo::cpu_kernels
