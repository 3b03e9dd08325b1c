// Recurrent layers by cuDNN, where it may serve them, and what it has to show before.
// Sees: ../dnn_recurrent.h, ../../tensor/ops/recurrent.h.
// Read next: recurrent_library.cu, recurrent_proof.cu; recurrent.cu (the kernels of our own).
//
// cuDNN serves where bits may vary (allow_nondeterministic()) or the environment sees to it that
// they do not, where every step of a reversed layer exists, and where it gave what our kernels give
// when they were compared. What it keeps for the gradient is a tensor of bytes, in the place of our
// kernels' gates; behind its end are the layer's two biases, with which our kernels run the layer
// once more where the library fails in the backward pass.
#pragma once

#include "../dnn_recurrent.h"

namespace mezzo::gpu {

/** The layer and its gradients by our own kernels. */
void recurrent_by_kernels(Inputs in, Outputs out, const op::RecurrentAttrs& attrs);
void recurrent_backward_by_kernels(Inputs in, Outputs out, const op::RecurrentLayerBackward::Attrs& attrs);

/** The same by cuDNN. False: it does not serve this call, and nothing was done that counts.
 *  Errors: CudaError where the device is broken; CapturePostponed where the library fails
 *  within a capture. */
bool recurrent_by_library(Inputs in, Outputs out, const op::RecurrentAttrs& attrs);
/** For a layer whose forward call cuDNN served; by our own kernels where it has failed since.
 *  Errors: as above. */
void recurrent_backward_by_library(Inputs in, Outputs out, const op::RecurrentLayerBackward::Attrs& attrs);
/** By what was kept. Both backends' kernels keep floating numbers. */
inline bool library_ran_forward(Inputs backward) {
  return backward[op::RecurrentLayerBackward::kKept].dtype() == DType::u8;
}

/** Runs exactly this layer, or its gradients. False where cuDNN has nothing for it. Errors:
 *  CudaError where it fails. */
bool run_by_library(const dnn::Recurrent& layer, Inputs in, Outputs out, const op::RecurrentAttrs& attrs);
bool differentiate_by_library(const dnn::Recurrent& layer, Inputs in, Outputs out,
                              const op::RecurrentLayerBackward::Attrs& attrs);

/** Whether cuDNN gives what our kernels give for a layer of this kind, on random numbers of our own, forwards, backwards, and where a NaN has to
 *  come through. Asked once for each kind; while a step is being captured, a kind not asked for before counts as one that does not. Errors: OutOfMemoryError. */
bool library_agrees(const dnn::Recurrent& layer, Device device);
/** The library has failed on a layer of this kind: it counts as one that does not agree from now
 *  on. */
void refuse_library(const dnn::Recurrent& layer, Device device);

/** What a layer is, for the log. */
std::string text_of(const dnn::Recurrent& layer);

}  // namespace mezzo::gpu
