// Recurrent layers by cuDNN.
//
// cuDNN is used where nondeterminism is allowed (allow_nondeterministic()) or the environment makes
// it deterministic, where every step of a reversed layer exists, and where it keeps NaN. The data
// that it saves for the gradient is a byte tensor, stored in place of the gates of Mezzo's kernels.
// The layer's two biases follow it: if the library fails in the backward pass, Mezzo's kernels use
// them to run the layer once more. tests/gpu/recurrent.cpp compares its results with those of
// Mezzo's kernels.
#pragma once

#include "../../dnn/recurrent.h"

namespace mezzo::gpu {

/** Compute the layer and its gradients with Mezzo's own kernels. */
void recurrent_by_kernels(Inputs in, Outputs out, const op::RecurrentAttrs& attrs);
void recurrent_backward_by_kernels(Inputs in, Outputs out,
                                   const op::RecurrentLayerBackward::Attrs& attrs);

/** Computes the layer with cuDNN. Returns false if it cannot be used; the results are then still to
 *  be computed. Errors: CudaError where the device is broken; CapturePostponed where the library
 *  fails within a capture. */
bool recurrent_by_library(Inputs in, Outputs out, const op::RecurrentAttrs& attrs);
/** Computes the gradients of a layer whose forward call used cuDNN, with Mezzo's own kernels if
 *  cuDNN has failed since. Errors: as above. */
void recurrent_backward_by_library(Inputs in, Outputs out,
                                   const op::RecurrentLayerBackward::Attrs& attrs);
/** Returns true if cuDNN ran the forward pass: its saved data are bytes, that of Mezzo's CPU and
 *  CUDA kernels floating-point numbers. */
inline bool library_ran_forward(Inputs backward) {
  return backward[op::RecurrentLayerBackward::kKept].dtype() == DType::u8;
}

}  // namespace mezzo::gpu
