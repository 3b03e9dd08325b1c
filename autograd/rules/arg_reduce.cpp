// Gradients of the reductions that return indices.
#include "../../tensor/ops/arg_reduce.h"

#include "../../tensor/core/dispatch.h"
#include "../ops/create.h"
#include "../ops/operators.h"
#include "reduce_support.h"

namespace mezzo::op {

namespace {

/** Returns 0, 1, ... along `dim`, with size 1 in the other dimensions. */
Tensor positions(const Shape& shape, int dim, Device device) {
  Shape line = Shape::filled(shape.rank(), 1);
  line[dim] = shape[dim];
  return arange(static_cast<double>(shape[dim]), {.dtype = DType::i64, .device = device})
      .view(line);
}

/** Returns the gradient, which goes to the chosen elements only. */
Grads to_chosen(const Saved& saved, int dim, const Tensor& gy) {
  const Shape& shape = saved.shape(0);
  if (shape.rank() == 0) return {gy};
  const Tensor g = with_kept_dims(gy, shape, 1u << dim);
  const Tensor index = with_kept_dims(saved.outputs[1], shape, 1u << dim);
  return {where(positions(shape, dim, gy.device()) == index, g, operand(0))};
}

}  // namespace

Grads Max::backward(const Saved& saved, const Grads& gy) {
  return to_chosen(saved, saved.attrs<Max>().dim, gy[0]);
}

Grads Min::backward(const Saved& saved, const Grads& gy) {
  return to_chosen(saved, saved.attrs<Min>().dim, gy[0]);
}

}  // namespace mezzo::op
