// PhiloxStream: what names the random numbers of one op.
// Sees: the standard library only; parsed by nvcc too.
// Read next: philox.h (the numbers), generator.h (who hands streams out).
#pragma once

#include <cstdint>

namespace mezzo {

/** One random op's stream of words. Each random op takes one `draw` of its generator; element i in row-major order uses word i % 4 of block
 *  i / 4, and an element of 64 bits the words 2 (i % 2) and 2 (i % 2) + 1 of block i / 2. */
struct PhiloxStream {
  std::uint64_t seed;
  std::uint64_t draw;
};

}  // namespace mezzo
