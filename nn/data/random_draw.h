// Draw: the random numbers of one call of a transform. Private to nn/data/.
#pragma once

#include <cstdint>

#include "../../tensor/random/generator.h"
#include "../../tensor/random/philox.h"

namespace mezzo::data {

/** The random numbers of one call of a transform: one draw of the default generator. */
class Draw {
 public:
  Draw() : stream_(default_generator().next_stream()) {}

  /** Returns a uniform number in [low, high). */
  double uniform(double low, double high) {
    const PhiloxBlock block = philox_block(stream_, next_++);
    return low + (high - low) * uniform_f64(block.word[0], block.word[1]);
  }
  /** Returns a uniform number in 0..n-1. */
  std::int64_t below(std::int64_t n) {
    const PhiloxBlock block = philox_block(stream_, next_++);
    return static_cast<std::int64_t>(
        uniform_below(static_cast<std::uint64_t>(n), block.word[0], block.word[1]));
  }
  /** Returns two standard normal numbers. */
  NormalPair normals() { return normal_pair(philox_block(stream_, next_++)); }

 private:
  PhiloxStream stream_;
  std::uint64_t next_ = 0;
};

}  // namespace mezzo::data
