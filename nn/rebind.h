// Replacing a leaf's memory, dtype or device without changing its identity.
#pragma once

#include "../tensor/core/tensor.h"

namespace mezzo {

/** Gives `leaf` the memory, dtype and device of `data`. All holders of the leaf see the change;
 *  views taken earlier keep the old memory. A gradient of another dtype, shape or device is
 *  dropped. A later backward pass throws if its graph saved the leaf before.
 *  Errors: StateError on the result of an operation; DtypeError where a leaf that requires a
 *  gradient would become integral. */
MZ_API void rebind(const Tensor& leaf, const Tensor& data);

/** Converts a leaf and its gradient; each is rounded once to nearest even. Does nothing if the leaf
 *  has that dtype. */
MZ_API void convert_(const Tensor& leaf, DType dtype);

/** Moves a leaf and its gradient to another device. */
MZ_API void convert_(const Tensor& leaf, Device device);

}  // namespace mezzo
