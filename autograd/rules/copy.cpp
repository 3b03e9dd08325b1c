// Gradients of the copying ops.
#include "../../tensor/ops/copy.h"

#include "../../tensor/core/dispatch.h"

namespace mezzo::op {

// The engine converts each gradient to its operand's dtype, shape and device, so these return it
// unchanged.
Grads To::backward(const Saved&, const Grads& gy) { return {gy[0]}; }

Grads ToDevice::backward(const Saved&, const Grads& gy) { return {gy[0]}; }

Grads CopyAcross::backward(const Saved&, const Grads& gy) { return {Tensor{}, gy[0]}; }

Grads Clone::backward(const Saved&, const Grads& gy) { return {gy[0]}; }

Grads Copy::backward(const Saved&, const Grads& gy) { return {Tensor{}, gy[0]}; }

Grads Fill::backward(const Saved&, const Grads&) { return {Tensor{}}; }

}  // namespace mezzo::op
