// nvcuda::wmma, the matrix operations of a warp on Tensor Cores, for a C++ compiler: 16 x 16 x 16
// with 16-bit factors and f32 sums; and the instruction mma.m16n8k16.
//
// wmma is stricter than a device where the device's behaviour is unspecified. The mapping of
// fragment elements to matrix elements differs from every device's. A lane reads its elements
// before the other lanes arrive and writes them after, so that memory which another lane accesses
// needs a separate barrier. Uninitialised elements are NaN. The terms of a sum are added in order
// to the accumulator in f32; on a device the order and intermediate roundings are unspecified, and
// tests must not depend on them.
#pragma once

#include "../../tensor/core/half.h"
#include "cuda.h"

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

inline constexpr unsigned kEdge = 16, kNumbers = kEdge * kEdge;

/** The calling lane's part of a matrix. */
template <class Use, int m, int n, int k, class T, class Layout = void> struct fragment {
  static_assert(m == kEdge && n == kEdge && k == kEdge);
  static constexpr int num_elements = kNumbers / mezzo::emulator::kWarp;
  T x[num_elements];
  fragment() { std::memset(static_cast<void*>(x), 0xFF, sizeof x); }
};

template <class Use, class T, class Layout = void>
using Fragment = fragment<Use, 16, 16, 16, T, Layout>;

namespace detail {

/** Returns the row-major position of a fragment's element in the matrix. Neither a lane's elements
 *  nor those of neighbouring lanes are adjacent. */
template <class Use> unsigned position(unsigned lane, unsigned element) {
  constexpr unsigned kShift = std::is_same_v<Use, accumulator> ? 37
                              : std::is_same_v<Use, matrix_a>  ? 91
                                                               : 146;
  return ((lane * kNumbers / mezzo::emulator::kWarp + element) * 101 + kShift) % kNumbers;
}

inline const char* all_alike(const mezzo::emulator::Exchange& all) {
  for (const std::uint64_t value : all.value)
    if (value != all.value[0]) return "lanes of one warp name different matrices";
  return nullptr;
}

/** Checks the alignment that a device requires of a matrix in memory. */
template <class T> void check(const T* at, unsigned pitch, mezzo::gpu::CallPlace place) {
  constexpr unsigned kStep = 16 / sizeof(T);  // elements
  if (reinterpret_cast<std::uintptr_t>(at) % 32 != 0)
    mezzo::emulator::forbid("a matrix whose address is no multiple of 32 bytes", place);
  if (pitch % kStep != 0 || pitch >= 1u << 15)
    mezzo::emulator::forbid("a matrix whose lines are no multiple of 16 bytes apart", place);
}

/** Waits for the warp and checks that all lanes name the same matrix. An address and a pitch fit in
 *  64 bits. */
template <class T>
void agree(const T* at, unsigned pitch, bool by_rows, mezzo::gpu::CallPlace place) {
  const std::uint64_t value = reinterpret_cast<std::uintptr_t>(at) | std::uint64_t{pitch} << 48 |
                              std::uint64_t{by_rows} << 63;
  mezzo::emulator::meet_warp(0xFFFFFFFFu, value, place, all_alike);
}

inline std::size_t offset_of(unsigned position, unsigned pitch, bool by_rows) {
  const unsigned row = position / kEdge, column = position % kEdge;
  return by_rows ? std::size_t{row} * pitch + column : std::size_t{column} * pitch + row;
}

template <class Use, class T, class Layout>
void load(Fragment<Use, T, Layout>& to, const T* from, unsigned pitch, bool by_rows,
          mezzo::gpu::CallPlace place) {
  check(from, pitch, place);
  for (unsigned i = 0; i < to.num_elements; ++i)
    to.x[i] = from[offset_of(position<Use>(mezzo::emulator::lane(), i), pitch, by_rows)];
  agree(from, pitch, by_rows, place);
}

/** A lane's operands of a product. */
template <class T, class Left, class Right> struct Factors {
  Fragment<accumulator, float>* sums;
  const Fragment<matrix_a, T, Left>* left;
  const Fragment<matrix_b, T, Right>* right;
  const Fragment<accumulator, float>* addend;
};

template <class T, class Left, class Right>
const char* multiply(const mezzo::emulator::Exchange& all) {
  float left[kNumbers], right[kNumbers];
  const auto brought = [&](unsigned lane) {
    return reinterpret_cast<const Factors<T, Left, Right>*>(
        static_cast<std::uintptr_t>(all.value[lane]));
  };
  constexpr unsigned kElements = kNumbers / mezzo::emulator::kWarp;
  for (unsigned lane = 0; lane < mezzo::emulator::kWarp; ++lane)
    for (unsigned i = 0; i < kElements; ++i) {
      left[position<matrix_a>(lane, i)] = static_cast<float>(brought(lane)->left->x[i]);
      right[position<matrix_b>(lane, i)] = static_cast<float>(brought(lane)->right->x[i]);
    }
  for (unsigned lane = 0; lane < mezzo::emulator::kWarp; ++lane)
    for (unsigned i = 0; i < kElements; ++i) {
      const unsigned at = position<accumulator>(lane, i);
      float sum = brought(lane)->addend->x[i];
      for (unsigned t = 0; t < kEdge; ++t)
        sum += left[at / kEdge * kEdge + t] * right[t * kEdge + at % kEdge];
      brought(lane)->sums->x[i] = sum;
    }
  return nullptr;
}

}  // namespace detail

template <class Use, class T, class Layout>
void fill_fragment(Fragment<Use, T, Layout>& x, T value) {
  for (T& element : x.x) element = value;
}

template <class Use, class T, class Layout>
void load_matrix_sync(Fragment<Use, T, Layout>& to, const T* from, unsigned pitch,
                      mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  detail::load(to, from, pitch, std::is_same_v<Layout, row_major>, place);
}
inline void load_matrix_sync(Fragment<accumulator, float>& to, const float* from, unsigned pitch,
                             layout_t layout,
                             mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  detail::load(to, from, pitch, layout == mem_row_major, place);
}

inline void store_matrix_sync(float* to, const Fragment<accumulator, float>& from, unsigned pitch,
                              layout_t layout,
                              mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  const bool by_rows = layout == mem_row_major;
  detail::check(to, pitch, place);
  detail::agree(to, pitch, by_rows, place);
  for (unsigned i = 0; i < from.num_elements; ++i)
    to[detail::offset_of(detail::position<accumulator>(mezzo::emulator::lane(), i), pitch,
                         by_rows)] = from.x[i];
}

/** Computes sums = left right + addend, which may be sums. */
template <class T, class Left, class Right>
void mma_sync(Fragment<accumulator, float>& sums, const Fragment<matrix_a, T, Left>& left,
              const Fragment<matrix_b, T, Right>& right, const Fragment<accumulator, float>& addend,
              mezzo::gpu::CallPlace place = mezzo::gpu::CallPlace::current()) {
  const detail::Factors<T, Left, Right> own{&sums, &left, &right, &addend};
  mezzo::emulator::meet_warp(0xFFFFFFFFu, reinterpret_cast<std::uintptr_t>(&own), place,
                             detail::multiply<T, Left, Right>);
}

}  // namespace nvcuda::wmma

namespace mezzo::emulator {

/** A lane's registers in mma.m16n8k16. */
struct LaneFactors {
  float* sums;
  const std::uint32_t *left, *right;
};

/** Multiplies the factors of a warp, whose elements are distributed as PTX documents. */
template <class T> const char* multiply_factors(const Exchange& all) {
  constexpr unsigned kRows = 16, kColumns = 8, kTerms = 16;
  float left[kRows][kTerms], right[kTerms][kColumns];
  const auto of = [&](unsigned lane) {
    return *reinterpret_cast<const LaneFactors*>(static_cast<std::uintptr_t>(all.value[lane]));
  };
  const auto half = [](std::uint32_t word, unsigned i) {
    return static_cast<float>(T::from_bits(static_cast<std::uint16_t>(word >> 16 * i)));
  };
  for (unsigned lane = 0; lane < kWarp; ++lane)
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned group = lane / 4, term = lane % 4 * 2 + i;
      for (unsigned word = 0; word < 4; ++word)
        left[group + word % 2 * 8][term + word / 2 * 8] = half(of(lane).left[word], i);
      for (unsigned word = 0; word < 2; ++word)
        right[term + word * 8][group] = half(of(lane).right[word], i);
    }
  for (unsigned lane = 0; lane < kWarp; ++lane)
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      for (unsigned t = 0; t < kTerms; ++t) of(lane).sums[i] += left[row][t] * right[t][column];
    }
  return nullptr;
}

/** Adds the product of the warp's factors to its sums. */
template <class T>
void multiply_lanes(float* sums, const std::uint32_t* left, const std::uint32_t* right,
                    gpu::CallPlace place = gpu::CallPlace::current()) {
  const LaneFactors own{sums, left, right};
  meet_warp(0xFFFFFFFFu, reinterpret_cast<std::uintptr_t>(&own), place, multiply_factors<T>);
}

}  // namespace mezzo::emulator
