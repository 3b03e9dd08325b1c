// Counts of the casts that automatic mixed precision inserts, per thread.
#pragma once

#include <cstdint>

#include "../../tensor/core/macros.h"

namespace mezzo::amp {

/** Casts on this thread since it started; subtract two readings to measure a part. Casts of the
 *  backward pass are not counted: each recorded cast has one, back to the original dtype. */
struct CastStats {
  std::int64_t casts = 0;       // executed: op inputs, and inputs and outputs of models
  std::int64_t bytes = 0;       // written by the executed casts
  std::int64_t cache_hits = 0;  // casts of weights taken from a cache

  friend CastStats operator-(const CastStats& a, const CastStats& b) {
    return {a.casts - b.casts, a.bytes - b.bytes, a.cache_hits - b.cache_hits};
  }
};

/** Returns the counts of the calling thread. */
MZ_API CastStats cast_stats();

}  // namespace mezzo::amp
