// Generator: the state of a random stream, {seed, draw}, and the default generator of each thread.
#pragma once

#include <cstdint>

#include "../core/macros.h"
#include "../device/device.h"
#include "philox_stream.h"

namespace mezzo {

/** The state of a random stream. Each random op takes one draw. Two generators with equal state
 *  give equal numbers on any device; saving the two fields saves the whole state. */
struct MZ_API Generator {
  std::uint64_t seed = 0;  // selects the stream
  std::uint64_t draw = 0;  // number of draws taken so far

  /** Returns the draw for one random op and advances the generator. */
  std::uint64_t next_draw() { return draw++; }

  /** Returns the random words for one op and advances the generator. */
  PhiloxStream next_stream() { return {seed, next_draw()}; }
  /** Returns the random words for one op whose numbers are made on `device`. In a captured step
   *  they differ at each replay. */
  PhiloxStream next_stream(Device device);

  /** Returns true for equal seeds and draws, which means equal numbers from now on. */
  friend bool operator==(const Generator&, const Generator&) = default;
};

/** Returns this thread's default generator, which random ops use if none is given; its seed is 0
 *  until manual_seed(). */
MZ_API Generator& default_generator();

/** Restarts this thread's default generator with a seed. Other threads are not affected. Errors:
 *  StateError within a captured step. */
MZ_API void manual_seed(std::uint64_t seed);

/** Returns a generator that is independent of that of `seed` and of other streams. Its seed is
 *  words 0 (low) and 1 of block `stream` in draw 2^64 - 1 of `seed`, a draw that no random op
 *  reaches. Used by data loaders and other owners of generators. */
MZ_API Generator split(std::uint64_t seed, std::uint64_t stream);

/** Gives one of several processes that have equal seeds random numbers of its own: sets `generator`
 *  to split(generator.seed, 2^32 + rank), which does not depend on the number of processes, nor on
 *  the draws taken so far. Call it once, after the draws that are to be equal on all ranks, such as
 *  a model's first values. Errors: ValueError for a negative rank; StateError within a captured
 *  step. */
MZ_API void use_own_random_stream(Generator& generator, int rank);

}  // namespace mezzo
