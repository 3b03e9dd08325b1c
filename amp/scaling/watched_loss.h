// watched: finds out whether a backward pass has started from a scaled loss.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "../../tensor/core/tensor.h"

namespace mezzo::amp {

/** Returns x as a tensor of its own in the graph, with the same memory. A backward pass through it
 *  adds 1 to `reached` and passes the gradient on as it is. Once the caller has freed `reached`, it
 *  throws StateError in the name of `scope`, if that is given: the pass is too late.
 *  Returns x if it requires no gradient. */
Tensor watched(const Tensor& x, const std::shared_ptr<std::atomic<int>>& reached,
               std::string_view scope = {});

}  // namespace mezzo::amp
