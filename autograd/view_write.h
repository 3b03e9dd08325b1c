// In-place writes through views. A write becomes part of the graph of the base and of all its
// views.
#pragma once

#include "node.h"

namespace mezzo {

/** Derives the graph edge of a recorded view from its base again if the storage was written since
 *  the edge was made. */
void refresh_view_edge(const Tensor& view);

/** Adds `node`, which computed new values for the elements of `view`, to the graph of the view's
 *  base. */
void write_through_view(const Tensor& view, const Ref<Node>& node);

}  // namespace mezzo
