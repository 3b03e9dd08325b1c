// Gradients of the view ops: the inverse view, or a scatter into zeros.
#include "../../tensor/ops/view.h"

#include "../../tensor/dispatch.h"
#include "../grad_mode.h"
#include "../ops/create.h"
#include "../ops/index.h"
#include "../ops/operators.h"
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

Grads Diagonal::backward(const Saved& saved, const Grads& gy) { return {scattered<Diagonal>(saved, gy[0])}; }

Grads Windows::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Windows>();
  const Tensor& g = gy[0];
  if (saved.shape(0).rank() == 0) return {sum_to(g, {})};
  // Windows overlap: an element's gradient is the sum over all that hold it.
  const TensorOptions integers{.dtype = DType::i64, .device = g.device()};
  const Tensor starts = arange(static_cast<double>(g.shape()[attrs.dim]), integers) * attrs.step;
  const Tensor within = arange(static_cast<double>(attrs.size), integers);
  const Tensor places = (starts.unsqueeze(1) + within).flatten();
  const Tensor whole = zeros(saved.shape(0), {.dtype = g.dtype(), .device = g.device()});
  return {
      index_add(whole, attrs.dim, places, g.movedim(-1, attrs.dim + 1).flatten(attrs.dim, attrs.dim + 1))};
}

Grads AsStrided::backward(const Saved& saved, const Grads& gy) {
  return {scattered<AsStrided>(saved, gy[0])};
}

}  // namespace mezzo::op
