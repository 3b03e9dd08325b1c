// Gradient of batch_norm.
#include "../../tensor/ops/batch_norm.h"

#include "../../tensor/dispatch.h"
#include "../grad_mode.h"
#include "normalize.h"
#include "wide.h"

namespace mezzo::op {

namespace {

/** A per-channel tensor as it broadcasts against x. */
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

Grads composite(const Saved& saved, const Tensor& gy) {
  const auto& attrs = saved.attrs<BatchNorm>();
  const Tensor x = wide(saved.inputs[0]), g = wide(gy);
  const Dims dims = all_but_channels(x);
  const Tensor gw = saved.inputs[1].defined() ? g * per_channel(wide(saved.inputs[1]), x) : g;
  Grads gradients(5);
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

}  // namespace

Grads BatchNorm::backward(const Saved& saved, const Grads& gy) {
  if (!saved.inputs[0].defined())  // only the bias asks
    return {Tensor{}, Tensor{}, sum(wide(gy[0]), all_but_channels(gy[0]))};
  if (grad_enabled()) return composite(saved, gy[0]);
  auto [dx, dw, db] = apply_all<BatchNormBackward>(saved.attrs<BatchNorm>(), gy[0], saved.inputs[0],
                                                   saved.inputs[1], saved.outputs[1], saved.outputs[2]);
  return {std::move(dx), std::move(dw), std::move(db)};
}

}  // namespace mezzo::op
