// watched: finds out whether a backward pass has started from a scaled loss.
#pragma once

#include <atomic>
#include <memory>

#include "../../tensor/core/tensor.h"

namespace mezzo::amp {

/** Returns x as a tensor of its own in the graph, with the same memory. A backward pass through it
 *  adds 1 to `reached` and passes the gradient on as it is. Returns x if it requires no gradient.
 */
Tensor watched(const Tensor& x, std::shared_ptr<std::atomic<int>> reached);

}  // namespace mezzo::amp
