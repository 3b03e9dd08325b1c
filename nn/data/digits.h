// Digits drawn by the library itself: data to train on where there is no file.
// Sees: dataset.h.
// Read next: digits.cpp (how they are drawn), mnist.h (the real ones).
#pragma once

#include <cstdint>

#include "dataset.h"

namespace mezzo::data {

/** n handwritten-looking digits, each written by a pen along strokes that are jittered, slanted, stretched, moved, and blurred by noise.
 *  x is f32 [n,1,28,28], ink bright; y is i64 [n] in 0..9. Digit i depends on (seed, i) alone: the same for any number of threads, and the first
 *  of a longer set. Errors: ValueError unless n >= 1. */
MZ_API Dataset synthetic_digits(std::int64_t n, std::uint64_t seed = 0, const ImageOptions& options = {});

}  // namespace mezzo::data
