// recorded_write(): an in-place write that is recorded in the graph. If either part fails, neither
// takes effect.
#pragma once

#include "op.h"

namespace mezzo {

/** Records an op whose result overwrites `self`, then calls write(data). The graph is extended
 *  first, because that allocates memory. If either throws, `self` keeps its place in the graph and
 *  its version. Defined in autograd/. */
void recorded_write(const OpInfo& info, Inputs in, Tensor& self, const void* attrs,
                    void (*write)(void* data), void* data);

}  // namespace mezzo
