// Engine: the connection of this process to the others; one per process.
#pragma once

#include <memory>

#include "job.h"
#include "launch.h"
#include "progress.h"

namespace mezzo::comm::detail {

/** What comm::init() made for a process that was launched with others. Lives as long as the
 *  process. */
struct Engine {
  std::unique_ptr<Progress> progress;
  std::shared_ptr<Group> all;
  int local_rank = 0;
};

/** Returns the engine, which the first call makes; null in a world of one. Errors: those of
 *  comm::init(). */
Engine* engine();

/** Returns the most elements that one transfer moves per rank. */
MZ_API std::int64_t max_count();
/** Lowers that number, so that tests reach it with little memory; 0 restores it. */
MZ_API void set_max_count(std::int64_t count);

/** Loads the MPI transport: from MEZZO_MPI_LIBRARY, or libmezzo-mpi.so beside this library. Errors:
 *  Unsupported if there is none, or if it was built for another version or launcher. */
std::unique_ptr<Transport> load_mpi(const Launch& launch);

}  // namespace mezzo::comm::detail
