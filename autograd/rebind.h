// Giving a leaf other memory, dtype or device while it stays the same object for everyone who holds it.
// Sees: tensor.
// Read next: ../nn/module.h (Module::to), whose parameters must keep their identity.
#pragma once

#include "../tensor/tensor.h"

namespace mezzo {

/** `leaf` shows the elements of `data` from now on, in its memory, dtype and device. Whoever holds the leaf sees the change; views taken
 *  earlier keep the old memory. A gradient of other dtype, shape or device is dropped. Graphs that saved the leaf notice the change.
 *  Errors: StateError on the result of an operation, DtypeError where a leaf that wants a gradient would become integral. */
MZ_API void rebind(const Tensor& leaf, const Tensor& data);

/** Converts a leaf and its gradient: each is rounded once to nearest even. Nothing happens where the dtype is `dtype` already. */
MZ_API void convert_(const Tensor& leaf, DType dtype);

/** Moves a leaf and its gradient to another device. */
MZ_API void convert_(const Tensor& leaf, Device device);

}  // namespace mezzo
