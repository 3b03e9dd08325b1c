// Recurrent layers by cuDNN.
//
// cuDNN is used where nondeterminism is allowed (allow_nondeterministic()) or the environment makes
// it deterministic, where every step of a reversed layer exists, and where it agreed with Mezzo's
// kernels in a comparison. The data that it saves for the gradient is a byte tensor, stored in
// place of the gates of Mezzo's kernels. The layer's two biases follow it: if the library fails in
// the backward pass, Mezzo's kernels use them to run the layer once more.
#pragma once

#include "../dnn/recurrent.h"

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

/** Run exactly this layer, or its gradients. They return false if cuDNN does not support it.
 *  Errors: CudaError where it fails. */
bool run_by_library(const dnn::Recurrent& layer, Inputs in, Outputs out,
                    const op::RecurrentAttrs& attrs);
bool differentiate_by_library(const dnn::Recurrent& layer, Inputs in, Outputs out,
                              const op::RecurrentLayerBackward::Attrs& attrs);

/** Returns true if cuDNN and Mezzo's kernels agree on a layer of this kind with random operands:
 *  forward, backward, and in propagating NaN. Compares once per kind; within a capture, a kind not
 *  compared before counts as disagreeing. Errors: OutOfMemory. */
bool library_agrees(const dnn::Recurrent& layer, Device device);
/** Records that the library failed on a layer of this kind: library_agrees() is false from then
 *  on. */
void refuse_library(const dnn::Recurrent& layer, Device device);

/** Describes a layer, for the log. */
std::string text_of(const dnn::Recurrent& layer);

}  // namespace mezzo::gpu
