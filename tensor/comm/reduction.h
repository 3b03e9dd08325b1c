// How numbers of several processes are combined.
#pragma once

#include <cstdint>

namespace mezzo::comm {

/** How elements are combined. Sums of integers wrap. A maximum or minimum with a NaN is a NaN;
 *  -0 is less than 0. */
enum class Op : std::uint8_t { sum, max, min };
/** The number of enumerators of Op. */
inline constexpr int kNumOps = 3;

/** The order in which a sum adds. */
enum class Order : std::uint8_t {
  fast,   // the order of the engine, which may depend on the number of elements and ranks
  ranks,  // ((g0 + g1) + g2) + ...: bit for bit what one process gets that adds in this order
};

}  // namespace mezzo::comm
