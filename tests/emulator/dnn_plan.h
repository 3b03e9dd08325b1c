// Plans of the emulated cuDNN.
// Sees: ../../cuda/dnn_calls.h.
// Read next: dnn.cpp, dnn_attention.cpp.
#pragma once

#include "../../cuda/dnn_calls.h"

namespace mezzo::gpu::dnn {

/** All plans compute the same. */
struct Plan {};

/** The first plan from a place on. Errors: CudaError where a test wants the library to fail. */
std::optional<Choice> emulated_plan(int first);

}  // namespace mezzo::gpu::dnn
