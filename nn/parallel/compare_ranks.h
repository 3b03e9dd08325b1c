// compare_ranks: checks the options of DistributedDataParallel, here and against the other ranks.
// training_ranks: the processes that train models together.
#pragma once

#include <span>

#include "../../optim/state_dict.h"
#include "distributed_data_parallel.h"

namespace mezzo::nn {

/** Throws ValueError for an invalid option. */
void check(const DistributedDataParallelOptions& options);

/** Compares model, session and options with the other ranks. Errors: CommError with the first line
 *  that differs. */
void compare_ranks(const Module& model, const comm::Communicator& ranks,
                   const DistributedDataParallelOptions& options);

/** Returns the ranks that train the parameters together: those of their DistributedDataParallel; a
 *  group of one without it. Errors: ValueError in the name of `op` if they have several wrappers
 *  with different ranks. */
comm::Communicator training_ranks(std::string_view op,
                                  std::span<const optim::NamedTensor> parameters);

}  // namespace mezzo::nn
