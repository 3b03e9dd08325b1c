// Gradients of the copying ops.
#include "../../tensor/ops/copy.h"

#include "../../tensor/dispatch.h"

namespace mezzo::op {

// The engine returns each gradient in its operand's dtype, shape and place, so passing it on is all there is to do.
Grads To::backward(const Saved&, const Grads& gy) { return {gy[0]}; }

Grads ToDevice::backward(const Saved&, const Grads& gy) { return {gy[0]}; }

Grads CopyAcross::backward(const Saved&, const Grads& gy) { return {Tensor{}, gy[0]}; }

Grads Clone::backward(const Saved&, const Grads& gy) { return {gy[0]}; }

Grads Copy::backward(const Saved&, const Grads& gy) { return {Tensor{}, gy[0]}; }

Grads Fill::backward(const Saved&, const Grads&) { return {Tensor{}}; }

}  // namespace mezzo::op
