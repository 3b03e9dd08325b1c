// Attention by cuDNN: which calls it may serve, and how its first answer of each kind is held against that of our own kernels.
// Sees: dnn.h, ../tensor/ops/attention.h.
// Read next: attention_library.cpp, attention_proof.cpp, kernels/attention.cu (who asks).
#pragma once

#include "../tensor/ops/attention.h"
#include "dnn.h"

namespace mezzo::gpu {

/** Hands the op to cuDNN: 16-bit operands without mask and dropout whose rows it can load. False where it does not serve the call, or must not:
 *  then the results are still to be computed. Errors: CudaError. */
bool attention_by_library(Inputs in, Outputs out, const op::AttentionAttrs& attrs);
/** The same for its gradients. */
bool attention_backward_by_library(Inputs in, Outputs out, const op::AttentionBackward::Attrs& attrs);

/** Our own kernels, which take everything; of the files in kernels/. */
void own_attention(Inputs in, Outputs out, const op::AttentionAttrs& attrs);
void own_attention_backward(Inputs in, Outputs out, const op::AttentionBackward::Attrs& attrs);

/** Whether cuDNN gives what our own kernels give for a problem of this kind: random numbers, in the layout of the problem's operands. Within the
 *  precision of the dtype, the same bits when asked again, and what is not a number shows. Waits for the device.
 *  Errors: CudaError, OutOfMemory. */
bool attention_is_proved(const dnn::Attention& kind, Device device);

}  // namespace mezzo::gpu
