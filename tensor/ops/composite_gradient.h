// gradients_of_composite: the gradient of a fused op from an equivalent composite of public ops.
// Used while the backward pass is recorded.
#pragma once

#include <functional>
#include <vector>

#include "../core/op.h"

namespace mezzo {

/** Returns the gradients of saved.inputs for the incoming gy. `body` computes the op's results from
 *  its inputs in public ops. Its results may have a wider dtype than the op's, and may be undefined
 *  where there is no gradient. The gradients are recorded, so they are differentiable any number of
 *  times. */
Grads gradients_of_composite(
    const Saved& saved, const Grads& gy,
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& body);

}  // namespace mezzo
