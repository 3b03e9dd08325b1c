// Gives all ranks the tensors of rank 0.
#pragma once

#include "../../tensor/comm/communicator.h"
#include "../module.h"

namespace mezzo::nn {

/** Returns a one-dimensional view of a dense tensor's memory. */
inline Tensor flat(const Tensor& dense) { return dense.as_strided({dense.numel()}, {1}); }

/** Gives all ranks the weights and buffers of rank 0; collective. They are loaded as a saved state
 *  is, so that f32 masters get their values as well. */
void broadcast_state(const Module& model, const comm::Communicator& ranks);

/** Throws on all ranks unless all pass the same text. Errors: CommError with the first line that
 *  differs, on both ranks; `kind` (at most 31 characters) is for the message. */
void require_same_lines(const comm::Communicator& ranks, std::string_view kind, std::string lines);

}  // namespace mezzo::nn
