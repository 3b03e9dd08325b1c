// Counts of the sectors of device memory that warps load and store, to find accesses that are not
// coalesced.
//
// A device executes one instruction for all lanes of a warp and moves every sector of 32 bytes that
// one of them touches. The emulator runs the lanes one after the other, so a request consists of
// the n-th execution of the same machine instruction by each lane. Only code compiled with
// -fsanitize=thread is seen (races.h), and only without optimisation is an access of the source one
// instruction.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../tensor/core/macros.h"

namespace mezzo::emulator {

/** The requests of a number of warps. */
struct Traffic {
  std::int64_t requests = 0, sectors = 0;
  std::int64_t fewest = 0;  // sectors if each request's bytes were adjacent and aligned

  double ratio() const { return static_cast<double>(sectors) / static_cast<double>(fewest); }
};

/** Scope that counts the traffic of instrumented kernels. For one thread; scopes do not nest. */
class MZ_API SectorLog {
 public:
  SectorLog();
  ~SectorLog();
  SectorLog(const SectorLog&) = delete;
  SectorLog& operator=(const SectorLog&) = delete;

  Traffic loads() const;
  Traffic stores() const;
};

namespace sectors {

/** Begins another block. */
void begin_block();
/** Records an access of the running lane by the instruction at `code`. */
void touch(const void* code, const void* address, std::size_t bytes, bool writes);

}  // namespace sectors

}  // namespace mezzo::emulator
