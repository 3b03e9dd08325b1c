// Generated images of digits: a data set that needs no files.
#pragma once

#include <cstdint>

#include "dataset.h"

namespace mezzo::data {

/** Returns n images that resemble handwritten digits. Each is drawn along strokes that are randomly
 *  jittered, slanted, stretched and moved, with noise added. x is f32 [n,1,28,28] with bright ink;
 *  y is i64 [n] in 0..9. Digit i depends on (seed, i) only, so it is independent of n and of the
 *  number of threads. Errors: ValueError unless n >= 1. */
MZ_API Dataset synthetic_digits(std::int64_t n, std::uint64_t seed = 0,
                                const ImageOptions& options = {});

}  // namespace mezzo::data
