// ExactSums: sums that do not depend on the order of their terms, in 64-bit fixed point. The unit
// follows from the largest term. Used for contributions that many threads scatter to locations
// known only on the device.
//
// A term is rounded to 2^-(62 - b) of the largest one, where b is the number of bits of the largest
// number of terms in a sum: for a million terms to 2^-42.
#pragma once

#include <bit>
#include <cmath>
#include <limits>

#include "lines.h"

namespace mezzo::gpu {

using SumWord = unsigned long long;

/** The sums' memory; all bits must be zero initially. */
struct ExactSums {
  SumWord* sums = nullptr;
  SumWord* largest = nullptr;     // bits of the largest |term|; they order as the numbers do
  unsigned* nonfinite = nullptr;  // per sum: the kinds of non-finite terms
  double most_terms = 1;          // in one sum

  static constexpr unsigned kPlus = 1, kMinus = 2, kNan = 4;

  static std::int64_t bytes(std::int64_t count) {
    return (count + 1) * static_cast<std::int64_t>(sizeof(SumWord)) +
           (count + 1) / 2 * 2 * static_cast<std::int64_t>(sizeof(unsigned));
  }
  ExactSums(const Tensor& room, std::int64_t count, double terms) : most_terms(terms) {
    largest = static_cast<SumWord*>(room.raw_data());
    sums = largest + 1;
    nonfinite = reinterpret_cast<unsigned*>(sums + count);
  }

#if defined(__CUDACC__) || defined(MZ_EMULATED_KERNEL)
  /** Announces the size of a term. Must be called for all terms before any is added. */
  __device__ void note_size(double size) const {
    if (size < std::numeric_limits<double>::infinity())
      atomicMax(largest, std::bit_cast<SumWord>(size));
  }
  /** Returns the exponent of the power of 2 that terms are multiplied by. */
  __device__ int exponent() const {
    int e = 0;
    std::frexp(std::bit_cast<double>(*largest) * most_terms, &e);
    return 61 - e;
  }
  __device__ void add(std::int64_t at, double term, int exponent) const {
    if (std::isfinite(term))
      atomicAdd(sums + at, static_cast<SumWord>(
                               static_cast<long long>(std::rint(std::ldexp(term, exponent)))));
    else
      atomicOr(nonfinite + at, term != term ? kNan : term > 0 ? kPlus : kMinus);
  }
  __device__ double value(std::int64_t at, int exponent) const {
    const unsigned met = nonfinite[at];
    if (met == 0)
      return std::ldexp(static_cast<double>(static_cast<long long>(sums[at])), -exponent);
    if (met == kPlus) return std::numeric_limits<double>::infinity();
    if (met == kMinus) return -std::numeric_limits<double>::infinity();
    return std::numeric_limits<double>::quiet_NaN();
  }
#endif
};

}  // namespace mezzo::gpu
