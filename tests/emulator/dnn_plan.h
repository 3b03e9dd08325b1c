// Plans of the emulated cuDNN.
#pragma once

#include "../../cuda/dnn/calls.h"

namespace mezzo::gpu::dnn {

/** A plan; all are equal. */
struct Plan {};

/** Returns the first plan at index `first` or later. Errors: CudaError for a LibraryFault of a
 *  test. */
std::optional<Choice> emulated_plan(int first);

}  // namespace mezzo::gpu::dnn
