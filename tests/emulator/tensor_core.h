// The operations of a warp on Tensor Cores for a C++ compiler: the instructions ldmatrix and
// mma.m16n8k16, which distribute matrices over the lanes as PTX documents.
//
// A lane reads its row of a matrix before the other lanes arrive, so that memory which another lane
// has written needs a separate barrier. The terms of a sum are added in order to the accumulator in
// f32; on a device the order and intermediate roundings are unspecified, and tests must not depend
// on them.
#pragma once

#include "../../tensor/core/half.h"
#include "cuda.h"

namespace mezzo::emulator {

/** What a lane contributes to ldmatrix: a row of one of four matrices of 8 x 8; and where it takes
 *  its two numbers of each matrix. */
struct LaneRow {
  static constexpr unsigned kEdge = 8;
  std::uint16_t row[kEdge];
  std::uint32_t* words;
};

/** Distributes the matrices, or the transposed ones: row `lane / 4`, columns `lane % 4 * 2` and the
 *  next. */
template <bool kTransposed> const char* distribute_matrices(const Exchange& all) {
  const auto of = [&](unsigned lane) -> const LaneRow& {
    return *reinterpret_cast<const LaneRow*>(static_cast<std::uintptr_t>(all.value[lane]));
  };
  for (unsigned lane = 0; lane < kWarp; ++lane)
    for (unsigned matrix = 0; matrix < kWarp / LaneRow::kEdge; ++matrix) {
      std::uint32_t word = 0;
      for (unsigned i = 0; i < 2; ++i) {
        const unsigned row = lane / 4, column = lane % 4 * 2 + i;
        const LaneRow& from = of(matrix * LaneRow::kEdge + (kTransposed ? column : row));
        word |= static_cast<std::uint32_t>(from.row[kTransposed ? row : column]) << 16 * i;
      }
      of(lane).words[matrix] = word;
    }
  return nullptr;
}

/** Loads four matrices of 8 x 8 numbers of 16 bits. Lane i gives the address of row i % 8 of matrix
 *  i / 8. */
template <bool kTransposed, class T>
void load_matrices(std::uint32_t* words, const T* row,
                   gpu::CallPlace place = gpu::CallPlace::current()) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
    forbid("a matrix row whose address is no multiple of 16 bytes", place);
  LaneRow own{.row = {}, .words = words};
  for (unsigned i = 0; i < LaneRow::kEdge; ++i) own.row[i] = row[i].bits;
  meet_warp(0xFFFFFFFFu, reinterpret_cast<std::uintptr_t>(&own), place,
            distribute_matrices<kTransposed>);
}

/** A lane's registers in mma.m16n8k16. */
struct LaneFactors {
  float* sums;
  const std::uint32_t *left, *right;
};

/** The numbers of a warp in mma.m16n8k16. */
struct WarpProduct {
  static constexpr unsigned kRows = 16, kColumns = 8, kTerms = 16;
  float sums[kRows][kColumns], left[kRows][kTerms], right[kTerms][kColumns];

  // Most of the time of emulated products is spent here. All indices are constants of the loops, so
  // nothing is to be checked.
  __attribute__((no_sanitize("address", "undefined"))) void multiply() {
    for (unsigned row = 0; row < kRows; ++row)
      for (unsigned t = 0; t < kTerms; ++t) {
        const float factor = left[row][t];
        for (unsigned column = 0; column < kColumns; ++column)
          sums[row][column] += factor * right[t][column];
      }
  }
};

/** Multiplies the factors of a warp, whose elements are distributed as PTX documents. */
template <class T> const char* multiply_factors(const Exchange& all) {
  WarpProduct warp;
  const auto half = [](std::uint32_t word, unsigned i) {
    return static_cast<float>(T::from_bits(static_cast<std::uint16_t>(word >> 16 * i)));
  };
  // Calls f(number of the warp, number of the lane) for each of the four sums of each lane.
  const auto for_each_sum = [&](const auto& f) {
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      float* const own =
          reinterpret_cast<const LaneFactors*>(static_cast<std::uintptr_t>(all.value[lane]))->sums;
      for (unsigned i = 0; i < 4; ++i)
        f(warp.sums[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2], own[i]);
    }
  };
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    const LaneFactors& own =
        *reinterpret_cast<const LaneFactors*>(static_cast<std::uintptr_t>(all.value[lane]));
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned group = lane / 4, term = lane % 4 * 2 + i;
      for (unsigned word = 0; word < 4; ++word)
        warp.left[group + word % 2 * 8][term + word / 2 * 8] = half(own.left[word], i);
      for (unsigned word = 0; word < 2; ++word)
        warp.right[term + word * 8][group] = half(own.right[word], i);
    }
  }
  for_each_sum([](float& sum, float own) { sum = own; });
  warp.multiply();
  for_each_sum([](float sum, float& own) { own = sum; });
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
