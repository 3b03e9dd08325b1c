// recorded_write(): an in-place write that is part of the graph, or never happened.
// Sees: op.h.
// Read next: dispatch.cpp (who calls it), ../autograd/record.cpp (where it is defined).
#pragma once

#include "op.h"

namespace mezzo {

/** Records the op, whose result overwrites `self`, then calls write(data). The graph comes first,
 *  since it takes memory: where either throws, the tensor has the place in the graph and the
 *  version that it had. Defined in autograd/. */
void recorded_write(const OpRow& row, Inputs in, Tensor& self, const void* attrs, void (*write)(void* data),
                    void* data);

}  // namespace mezzo
