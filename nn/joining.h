// Whether layers may be called together, in one op that has the bits of theirs.
// Sees: nothing. Private to this room.
// Read next: sequential.cpp, norm.cpp (who asks).
#pragma once

namespace mezzo::nn::detail {

/** Whether nobody can tell the joined op from its parts but by the time it takes: not under a trace, which would show it, nor where a user has given
 *  one of these ops another precision tag. */
bool mlp_may_join();
bool batch_norm_relu_may_join();

}  // namespace mezzo::nn::detail
