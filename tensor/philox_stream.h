// PhiloxStream: what names the random numbers of one op.
// Sees: macros.h; parsed by nvcc too.
// Read next: philox.h (the numbers), generator.h (who hands streams out).
#pragma once

#include <cstdint>

#include "macros.h"

namespace mezzo {

/** One random op's stream of words. Each random op takes one `draw` of its generator; element i in row-major order uses word i % 4 of block
 *  i / 4, and an element of 64 bits the words 2 (i % 2) and 2 (i % 2) + 1 of block i / 2. */
struct PhiloxStream {
  std::uint64_t seed;
  std::uint64_t draw;
  /** In a captured step: a generator's state in the memory of the device, {seed, draw}, from which the draw counts. */
  const std::uint64_t* base = nullptr;

  /** The stream with its numbers; for code that runs where `base` leads. */
  MZ_HD PhiloxStream resolved() const {
    return base ? PhiloxStream{base[0], base[1] + draw, nullptr} : *this;
  }
};

}  // namespace mezzo
