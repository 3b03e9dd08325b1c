// Gradients of batch_norm and batch_norm_relu.
#include "../../tensor/ops/batch_norm.h"

#include "../../tensor/core/dispatch.h"
#include "../grad_mode.h"
#include "../ops/compare.h"
#include "../ops/selection.h"
#include "normalize.h"
#include "wide.h"

namespace mezzo::op {

namespace {

/** Returns a per-channel tensor in a shape that broadcasts against x. */
Tensor per_channel(const Tensor& values, const Tensor& x) {
  Shape shape = Shape::filled(x.dim(), 1);
  shape[1] = values.shape()[0];
  return values.view(shape);
}

Dims all_but_channels(const Tensor& x) {
  std::vector<std::int64_t> dims{0};
  for (int i = 2; i < x.dim(); ++i) dims.push_back(i);
  return dims;
}

/** Computes the gradients in public ops. Both ops have the same operands and statistics. */
Grads composite(const Saved& saved, const Tensor& gy) {
  const auto& attrs = saved.attrs<BatchNorm>();
  const Tensor x = wide(saved.inputs[0]), g = wide(gy);
  const Dims dims = all_but_channels(x);
  const Tensor gw = saved.inputs[1].defined() ? g * per_channel(wide(saved.inputs[1]), x) : g;
  Grads gradients(saved.input_meta.size());
  Tensor normal;
  if (attrs.training) {
    const Normalized batch(x, dims, attrs.eps, true);
    normal = batch.normal;
    gradients[0] = batch.gradient(gw, dims, true);
  } else {
    const Tensor rstd = per_channel(saved.outputs[2].detach(), x);
    normal = (x - per_channel(saved.outputs[1].detach(), x)) * rstd;
    gradients[0] = gw * rstd;
  }
  if (saved.wants(1)) gradients[1] = sum(g * normal, dims);
  if (saved.wants(2)) gradients[2] = sum(g, dims);
  return gradients;
}

bool wants_only_bias(const Saved& saved) { return !saved.wants(0) && !saved.wants(1); }

Grads of_bias(const Saved& saved, const Tensor& gy) {
  Grads gradients(saved.input_meta.size());
  if (saved.wants(2)) gradients[2] = sum(wide(gy), all_but_channels(gy));
  return gradients;
}

}  // namespace

Grads BatchNorm::backward(const Saved& saved, const Grads& gy) {
  if (wants_only_bias(saved)) return of_bias(saved, gy[0]);
  if (grad_enabled()) return composite(saved, gy[0]);
  auto [dx, dw, db] =
      apply_all<BatchNormBackward>(saved.attrs<BatchNorm>(), gy[0], saved.inputs[0],
                                   saved.inputs[1], saved.outputs[1], saved.outputs[2]);
  return {std::move(dx), std::move(dw), std::move(db)};
}

Grads BatchNormRelu::backward(const Saved& saved, const Grads& gy) {
  if (wants_only_bias(saved) || grad_enabled()) {
    const Tensor g = where(gt(saved.outputs[0].detach(), 0.0), gy[0], 0.0);
    Grads gradients = wants_only_bias(saved) ? of_bias(saved, g) : composite(saved, g);
    gradients[6] = g;
    return gradients;
  }
  const bool has_residual = saved.shape(6).rank() > 0;
  auto [dx, dw, db, residual] = apply_all<BatchNormReluBackward>(
      saved.attrs<BatchNormRelu>(), gy[0], saved.inputs[0], saved.inputs[1], saved.outputs[1],
      saved.outputs[2], saved.inputs[2], has_residual ? saved.outputs[0] : Tensor{});
  return {std::move(dx), std::move(dw), std::move(db), {}, {}, {}, std::move(residual)};
}

}  // namespace mezzo::op
