// In-place writes through views: the write becomes part of the base's graph, and every other view of the base finds it there.
// Sees: node.h.
// Read next: record.cpp.
#pragma once

#include "node.h"

namespace mezzo {

/** If `view` is a recorded view whose storage was written since its edge was made, makes the edge anew from the base. */
void refresh_view_edge(const Tensor& view);

/** `node` computed new values for the elements under `view`: puts it into the graph of the view's base. */
void write_through_view(const Tensor& view, const Ref<Node>& node);

}  // namespace mezzo
