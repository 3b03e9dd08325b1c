// Gradients of group_norm and instance_norm.
#include "../../tensor/ops/group_norm.h"

#include "../../tensor/core/dispatch.h"
#include "../grad_mode.h"
#include "normalize.h"
#include "wide.h"

namespace mezzo::op {

namespace {

/** Returns the sum over samples and space. */
Tensor over_all_but_channels(const Tensor& x) {
  std::vector<std::int64_t> dims{0};
  for (int i = 2; i < x.dim(); ++i) dims.push_back(i);
  return sum(x, dims);
}

Grads composite(const Saved& saved, const Tensor& gy, const GroupNormAttrs& attrs,
                std::int64_t groups) {
  const Tensor x = wide(saved.inputs[0]), g = wide(gy), weight = wide(saved.inputs[1]);
  Shape channels = Shape::filled(x.dim(), 1),
        rows{x.shape()[0], groups, x.numel() / (x.shape()[0] * groups)};
  channels[1] = x.shape()[1];
  const Normalized group(x.reshape(rows), 2, attrs.eps, true);
  const Tensor normal = group.normal.reshape(x.shape());
  const Tensor gw = weight.defined() ? g * weight.view(channels) : g;
  Grads gradients(3);
  gradients[0] = group.gradient(gw.reshape(rows), 2, true).reshape(x.shape());
  if (saved.wants(1)) gradients[1] = over_all_but_channels(g * normal);
  if (saved.wants(2)) gradients[2] = over_all_but_channels(g);
  return gradients;
}

Grads backward(const Saved& saved, const Tensor& g, const GroupNormAttrs& attrs,
               std::int64_t groups) {
  if (!saved.inputs[0].defined())  // only the bias is wanted
    return {Tensor{}, Tensor{}, over_all_but_channels(wide(g))};
  if (grad_enabled() && g.numel() > 0) return composite(saved, g, attrs, groups);
  auto [dx, dw, db] = apply_all<GroupNormBackward>(attrs, g, saved.inputs[0], saved.inputs[1],
                                                   saved.outputs[1], saved.outputs[2]);
  return {std::move(dx), std::move(dw), std::move(db)};
}

}  // namespace

Grads GroupNorm::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<GroupNorm>();
  return op::backward(saved, gy[0], attrs, attrs.groups);
}

Grads InstanceNorm::backward(const Saved& saved, const Grads& gy) {
  return op::backward(saved, gy[0], saved.attrs<InstanceNorm>(), saved.shape(0)[1]);
}

}  // namespace mezzo::op
