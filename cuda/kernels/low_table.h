// Tables of a function of 16-bit numbers in shared memory: its results by its own formula, for all
// arguments but the smallest and the largest. For functions whose formula takes longer than loads
// and stores do.
#pragma once

#include "../../tensor/ops/elementwise/apply.h"
#include "typed.h"

namespace mezzo::op {
struct Gelu;
}

namespace mezzo::gpu {

/** True if the results of an op in 16 bits are looked up: if its formula takes more than the 5.3
 *  instructions per byte for which loads and stores leave time. */
template <class Op> inline constexpr bool kHasTable = std::is_same_v<Op, op::Gelu>;
/** Elements from which on a table takes less time than the formula. */
constexpr std::int64_t kTableElements = std::int64_t{1} << 24;

/** The arguments in a table: kCount magnitudes from kLow on, as bits, with either sign. The entries
 *  of negative ones come last. */
template <class T> struct LowTable {
  static constexpr bool kIsBf16 = std::is_same_v<T, BFloat16>;
  static constexpr unsigned kLow = kIsBf16 ? 0x3280 : 0x0800;    // 2^-26, 2^-13
  static constexpr unsigned kCount = kIsBf16 ? 0x1000 : 0x4000;  // to 2^6, to 2^3
  static constexpr unsigned kBeyond = 0x8000 - kCount;           // bits that no entry has
  static constexpr int kEntries = 2 * kCount;

  /** Returns the argument of an entry. */
  __device__ static T argument(unsigned entry) {
    const unsigned magnitude = kLow + entry % kCount, sign = entry / kCount << 15;
    return T::from_bits(static_cast<std::uint16_t>(sign | magnitude));
  }
  /** Sets the halves of each word to the entries of a pack's elements. Returns false if there is no
   *  entry for some. */
  __device__ static bool find(const PackWords& pack, PackWords& entries) {
    constexpr unsigned kBoth = 0x10001;
    unsigned all = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const unsigned from_low = pack.item[k] - kLow * kBoth;  // a lower half below kLow is marked
      all |= from_low;
      entries.item[k] = from_low - (from_low >> 15 & kBoth) * kBeyond;
    }
    return (all & kBeyond * kBoth) == 0;
  }
};

/** Sets table[i] to value(argument of entry i), by all threads of the block, and waits for it. */
template <class T, class Entry, class Value>
__device__ inline void fill_table(Entry* table, const Value& value) {
  for (int i = static_cast<int>(threadIdx.x); i < LowTable<T>::kEntries;
       i += static_cast<int>(blockDim.x))
    table[i] = value(LowTable<T>::argument(static_cast<unsigned>(i)));
  __syncthreads();
}

// ---- gradients of unary ops ---------------------------------------------------------------------

/** Returns the gradient of a pack of a unary op. `saved` is the operand or the result, which the
 *  formula uses. */
template <class Op, class T>
__device__ inline PackWords gradient_low_pack(const AttrsOf<Op>& attrs, const PackWords& saved,
                                              const PackWords& incoming) {
  float value[kPerPack<T>], g[kPerPack<T>], gx[kPerPack<T>];
  widen<T>(saved, value);
  widen<T>(incoming, g);
#pragma unroll
  for (int k = 0; k < kPerPack<T>; ++k)
    gx[k] = elementwise_gradient<Op, 0>(g[k], value[k], attrs, value[k]);
  return narrowed_words<T, kPerPack<T>>(gx);
}

/** gradient_low_pack() of few packs. */
template <class Op, class T>
__device__ __noinline__ PackWords gradient_alone(const AttrsOf<Op>& attrs, PackWords saved,
                                                 PackWords incoming) {
  PackWords result;
  with_attrs<Op>(attrs,
                 [&](auto get) { result = gradient_low_pack<Op, T>(get(), saved, incoming); });
  return result;
}

/** Fills a table with derivatives: each gradient is one of them times the incoming gradient. */
template <class Op, class T>
__device__ inline void fill_derivatives(const AttrsOf<Op>& attrs, float* table) {
  with_attrs<Op>(attrs, [&](auto get) {
    fill_table<T>(table, [&](T argument) {
      const float x = widened(argument);
      return elementwise_gradient<Op, 0>(1.0f, x, get(), x);
    });
  });
}

/** gradient_low_pack() by a table of derivatives. */
template <class Op, class T>
__device__ inline PackWords gradient_by_table(const AttrsOf<Op>& attrs, const float* table,
                                              const PackWords& saved, const PackWords& incoming) {
  PackWords entries;
  if (!LowTable<T>::find(saved, entries)) return gradient_alone<Op, T>(attrs, saved, incoming);
  float g[kPerPack<T>], gx[kPerPack<T>];
  widen<T>(incoming, g);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    gx[2 * k] = g[2 * k] * table[entries.item[k] & 0xFFFF];
    gx[2 * k + 1] = g[2 * k + 1] * table[entries.item[k] >> 16];
  }
  return narrowed_words<T, kPerPack<T>>(gx);
}

}  // namespace mezzo::gpu
