// Gradients of the view ops: the inverse view, or a scatter into zeros.
#include "../../tensor/ops/view.h"

#include "../../tensor/dispatch.h"
#include "../grad_mode.h"
#include "../ops/create.h"
#include "../ops/reduce.h"

namespace mezzo::op {

namespace {

/** g written into zeros of the operand's shape, where the view was. */
template <class Op> Tensor scattered(const Saved& saved, const Tensor& g) {
  const Tensor whole = zeros(saved.shape(0), {.dtype = g.dtype(), .device = g.device()});
  apply_with<Op>(saved.attrs<Op>(), whole).copy_(g);
  return whole;
}

}  // namespace

Grads View::backward(const Saved& saved, const Grads& gy) { return {gy[0].reshape(saved.shape(0))}; }

Grads Permute::backward(const Saved& saved, const Grads& gy) {
  const Shape& order = saved.attrs<Permute>().order;
  Shape inverse = order;
  for (int i = 0; i < order.rank(); ++i) inverse[order[i]] = i;
  return {gy[0].permute(std::span<const std::int64_t>(inverse))};
}

Grads Expand::backward(const Saved& saved, const Grads& gy) { return {sum_to(gy[0], saved.shape(0))}; }

Grads Slice::backward(const Saved& saved, const Grads& gy) { return {scattered<Slice>(saved, gy[0])}; }

Grads Select::backward(const Saved& saved, const Grads& gy) { return {scattered<Select>(saved, gy[0])}; }

Grads AsStrided::backward(const Saved& saved, const Grads& gy) {
  return {scattered<AsStrided>(saved, gy[0])};
}

}  // namespace mezzo::op
