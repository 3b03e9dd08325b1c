// compare_ranks: checks the options of DistributedDataParallel, here and against the other ranks.
#pragma once

#include "distributed_data_parallel.h"

namespace mezzo::nn {

/** Throws ValueError for an invalid option. */
void check(const DistributedDataParallelOptions& options);

/** Compares model, session and options with the other ranks. Errors: CommError with the first line
 *  that differs. */
void compare_ranks(const Module& model, const comm::Communicator& ranks,
                   const DistributedDataParallelOptions& options);

}  // namespace mezzo::nn
