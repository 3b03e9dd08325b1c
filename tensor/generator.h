// Generator: the state of a random stream, {seed, draw}, and the one each thread uses by default.
// Sees: device.h, philox_stream.h.
// Read next: philox.h (what is drawn from it).
#pragma once

#include <cstdint>

#include "device.h"
#include "macros.h"
#include "philox_stream.h"

namespace mezzo {

/** Each random op takes one draw. Two generators with equal state give equal numbers on any device; saving the two fields saves all. */
struct MZ_API Generator {
  std::uint64_t seed = 0;
  std::uint64_t draw = 0;

  /** The draw for one random op; the next call gives the next one. */
  std::uint64_t next_draw() { return draw++; }

  /** The words for one random op. */
  PhiloxStream next_stream() { return {seed, next_draw()}; }
  /** The words for one whose numbers are made on `device`: in a captured step they are others at each replay. */
  PhiloxStream next_stream(Device device);

  friend bool operator==(const Generator&, const Generator&) = default;
};

/** The generator of this thread that random ops use when none is named; seed 0 until manual_seed(). */
MZ_API Generator& default_generator();

/** Starts this thread's default generator anew with a seed. Other threads keep theirs. Errors: StateError within a captured step. */
MZ_API void manual_seed(std::uint64_t seed);

/** A generator independent of `seed`'s own and of other streams': its seed is words 0 (low) and 1 of block `stream` in draw 2^64 - 1 of
 *  `seed`, a draw that no random op reaches. Data loaders and other owners of generators derive theirs so. */
MZ_API Generator split(std::uint64_t seed, std::uint64_t stream);

}  // namespace mezzo
