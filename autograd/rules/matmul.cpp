// Gradients of the matrix products.
#include "matmul.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/matmul.h"
#include "../ops/matmul.h"
#include "../ops/operators.h"

namespace mezzo {

namespace {

Tensor scaled_matmul(const Tensor& x, const Tensor& y, double alpha) {
  return apply_with<op::MatMul>({.alpha = alpha}, x, y);
}

Shape batch_of(const Shape& shape) {
  Shape batch;
  for (int i = 0; i < shape.rank() - 2; ++i) batch.push_back(shape[i]);
  return batch;
}

/** The dimensions of a broadcast batch: those that stay, and those that are summed. */
struct BatchSplit {
  Shape kept, summed;  // dimension numbers
  std::int64_t summed_size = 1;
};

BatchSplit split_batch(const Shape& all, const Shape& wanted) {
  BatchSplit split;
  const int lead = all.rank() - wanted.rank();
  for (int i = 0; i < all.rank(); ++i) {
    const bool summed = (i < lead || wanted[i - lead] == 1) && all[i] != 1;
    (summed ? split.summed : split.kept).push_back(i);
    if (summed) split.summed_size *= all[i];
  }
  return split;
}

/** Returns x of shape [all, p, q] as [kept, p, summed * q]. */
Tensor summed_into_last(const Tensor& x, const Shape& all, const BatchSplit& split) {
  Shape full = all, order = split.kept, shape;
  const int r = all.rank();
  full.push_back(x.size(-2));
  full.push_back(x.size(-1));
  order.push_back(r);
  for (const std::int64_t i : split.summed) order.push_back(i);
  order.push_back(r + 1);
  for (const std::int64_t i : split.kept) shape.push_back(all[i]);
  shape.push_back(x.size(-2));
  shape.push_back(split.summed_size * x.size(-1));
  return x.expand(full).permute(order).reshape(shape);
}

}  // namespace

Tensor contract(const Tensor& x, const Tensor& y, const Shape& batch, double alpha) {
  const Shape all = broadcast_shapes(batch_of(x.shape()), batch_of(y.shape()), "matmul");
  const BatchSplit split = split_batch(all, batch);
  Shape result = batch;
  result.push_back(x.size(-2));
  result.push_back(y.size(-1));
  const Tensor product =
      split.summed.empty()
          ? scaled_matmul(x, y, alpha)
          : scaled_matmul(summed_into_last(x, all, split),
                          summed_into_last(y.transpose(-2, -1), all, split).transpose(-2, -1),
                          alpha);
  return product.shape() == result ? product : product.reshape(result);
}

FactorGrads factor_grads(const Tensor& g, const Tensor& a, const Tensor& b, const Shape& shape_a,
                         const Shape& shape_b, bool want_a, bool want_b, double alpha) {
  const bool row = shape_a.rank() == 1, column = shape_b.rank() == 1;
  Tensor gm = column ? g.unsqueeze(-1) : g;
  if (row) gm = gm.unsqueeze(-2);
  FactorGrads grads;
  if (want_a) {
    const Tensor bt = column ? b.unsqueeze(0) : b.transpose(-2, -1);
    grads.a = contract(gm, bt, batch_of(shape_a), alpha);
    if (row) grads.a = grads.a.squeeze(0);
  }
  if (want_b) {
    const Tensor at = row ? a.unsqueeze(1) : a.transpose(-2, -1);
    grads.b = contract(at, gm, batch_of(shape_b), alpha);
    if (column) grads.b = grads.b.squeeze(1);
  }
  return grads;
}

namespace op {

namespace {
Grads product_grads(const Saved& saved, const Tensor& g, double alpha = 1) {
  FactorGrads grads = factor_grads(g, saved.inputs[0], saved.inputs[1], saved.shape(0),
                                   saved.shape(1), saved.wants(0), saved.wants(1), alpha);
  return {std::move(grads.a), std::move(grads.b)};
}
}  // namespace

Grads Bmm::backward(const Saved& saved, const Grads& gy) { return product_grads(saved, gy[0]); }

Grads MatMul::backward(const Saved& saved, const Grads& gy) {
  return product_grads(saved, gy[0], saved.attrs<MatMul>().alpha);
}

Grads Mm::backward(const Saved& saved, const Grads& gy) { return product_grads(saved, gy[0]); }

Grads Mv::backward(const Saved& saved, const Grads& gy) { return product_grads(saved, gy[0]); }

Grads Linear::backward(const Saved& saved, const Grads& gy) {
  Grads grads(3);
  if (saved.wants(0)) grads[0] = matmul(gy[0], saved.inputs[1]);
  linear_parameter_grads(saved, saved.inputs[0], gy[0], grads);
  return grads;
}

Grads Dot::backward(const Saved& saved, const Grads& gy) {
  Grads grads(2);
  if (saved.wants(0)) grads[0] = gy[0] * saved.inputs[1];
  if (saved.wants(1)) grads[1] = gy[0] * saved.inputs[0];
  return grads;
}

Grads Vecdot::backward(const Saved& saved, const Grads& gy) {
  const Tensor g = gy[0].unsqueeze(-1);
  Grads grads(2);
  if (saved.wants(0)) grads[0] = g * saved.inputs[1];
  if (saved.wants(1)) grads[1] = g * saved.inputs[0];
  return grads;
}

}  // namespace op

}  // namespace mezzo
