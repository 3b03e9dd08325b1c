// Checkpoints of a training in several processes ("ranks"): rank 0 writes, all read.
#pragma once

#include <functional>
#include <string_view>

#include "../../tensor/comm/communicator.h"
#include "checkpoint_state.h"

namespace mezzo::amp {

/** Returns the ranks that train the models together: those of their DistributedDataParallel; a
 *  group of one without it. Errors: ValueError if the models have several wrappers with different
 *  ranks. */
comm::Communicator ranks_of(const Training& training);

/** Runs `work` on each rank and waits for all. If it throws on a rank, it throws on all: on the
 *  others an IoError that names the rank and quotes the text. */
void on_all_ranks(const comm::Communicator& ranks, std::string_view op,
                  const std::function<void()>& work);

/** Sets the generators of the other ranks in `state`; collective. */
void gather_generators(const comm::Communicator& ranks, const Training& training,
                       CheckpointState& state);

/** Returns the generators that a rank continues with: its own as saved. A rank that was not saved
 *  gets streams of its own, split(seed, 2^32 + rank) of rank 0's; this is logged. */
RankGenerators generators_for(int rank, const CheckpointState& saved);

}  // namespace mezzo::amp
