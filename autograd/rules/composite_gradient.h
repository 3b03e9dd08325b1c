// gradients_of_composite: the rule of a fused op while a graph of the gradient is built, from the op written in public ops.
// Sees: tensor.
// Read next: attention.cpp, recurrent.cpp (users).
#pragma once

#include <functional>
#include <vector>

#include "../../tensor/op.h"

namespace mezzo {

/** Gradients of saved.inputs for the incoming gy, where `body` computes the op's results from its inputs in public ops. The results may be
 *  wider than the op's; entries that have no gradient to give or take may be undefined. Part of the graph: differentiable any number of times. */
Grads gradients_of_composite(const Saved& saved, const Grads& gy,
                             const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& body);

}  // namespace mezzo
