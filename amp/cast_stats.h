// Counts of the casts that automatic mixed precision inserts, per thread.
// Sees: the standard library only.
// Read next: casting.h (who counts).
#pragma once

#include <cstdint>

#include "../tensor/macros.h"

namespace mezzo::amp {

/** What this thread has cast since it began; take the difference of two readings. Casts of the backward pass are not in it: each recorded cast
 *  has one, back to the dtype it came from. */
struct CastStats {
  std::int64_t casts = 0;       // executed: op inputs, and inputs and outputs of models
  std::int64_t bytes = 0;       // written by them
  std::int64_t cache_hits = 0;  // weights whose cast was at hand

  friend CastStats operator-(const CastStats& a, const CastStats& b) {
    return {a.casts - b.casts, a.bytes - b.bytes, a.cache_hits - b.cache_hits};
  }
};

MZ_API CastStats cast_stats();

}  // namespace mezzo::amp
