// wide: the type that a rule's arithmetic runs in, so that a rule in public ops rounds once at its end, as the fused kernel does.
// Sees: tensor.
// Read next: softmax.cpp.
#pragma once

#include "../../tensor/tensor.h"

namespace mezzo {

/** x in f32 (f64 stays); undefined stays undefined. */
inline Tensor wide(const Tensor& x) { return x.defined() ? x.to(compute_dtype(x.dtype())) : x; }

}  // namespace mezzo
