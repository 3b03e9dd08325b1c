// PhiloxStream: identifies the random numbers of one op. Parsed by g++ and by nvcc.
#pragma once

#include <cstdint>

#include "../core/macros.h"

namespace mezzo {

/** The stream of random words of one op. Each random op takes one `draw` of its generator. Element
 *  i in row-major order uses word i % 4 of block i / 4; a 64-bit element uses the words 2 (i % 2)
 *  and 2 (i % 2) + 1 of block i / 2. */
struct PhiloxStream {
  std::uint64_t seed;
  std::uint64_t draw;
  /** In a captured step: the address of a generator's state {seed, draw} in device memory; `draw`
   *  is relative to it. Otherwise null. */
  const std::uint64_t* base = nullptr;

  /** Returns the stream with seed and draw read from `base`; for code that can read the memory at
   *  `base`. */
  MZ_HD PhiloxStream resolved() const {
    return base ? PhiloxStream{base[0], base[1] + draw, nullptr} : *this;
  }
};

}  // namespace mezzo
