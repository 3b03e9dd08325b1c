// Gradients of layer_norm and rms_norm.
#include "../../tensor/ops/layer_norm.h"

#include "../../tensor/core/dispatch.h"
#include "../grad_mode.h"
#include "normalize.h"
#include "wide.h"

namespace mezzo::op {

namespace {

/** Returns the dimensions within a row, or the dimensions before them. */
std::vector<std::int64_t> row_dims(const Shape& x, const Shape& dims, bool within) {
  std::vector<std::int64_t> list;
  const int lead = x.rank() - dims.rank();
  for (int i = within ? lead : 0; i < (within ? x.rank() : lead); ++i) list.push_back(i);
  return list;
}

/** Returns the sum over all rows. */
Tensor over_rows(const Tensor& x, const Shape& dims) {
  return x.dim() == dims.rank() ? x : sum(x, row_dims(x.shape(), dims, false));
}

Grads composite(const Saved& saved, const Tensor& gy, const RowNormAttrs& attrs, bool centered) {
  const Tensor x = wide(saved.inputs[0]), g = wide(gy);
  const Dims dims(row_dims(x.shape(), attrs.dims, true));
  const Normalized row(x, dims, attrs.eps, centered);
  Grads gradients(saved.input_meta.size());
  const Tensor gw = saved.inputs[1].defined() ? g * wide(saved.inputs[1]) : g;
  gradients[0] = row.gradient(gw, dims, centered);
  if (saved.wants(1)) gradients[1] = over_rows(g * row.normal, attrs.dims);
  if (centered && saved.wants(2)) gradients[2] = over_rows(g, attrs.dims);
  return gradients;
}

}  // namespace

Grads LayerNorm::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<LayerNorm>();
  if (!saved.inputs[0].defined())  // only the bias is wanted
    return {Tensor{}, Tensor{}, over_rows(wide(gy[0]), attrs.dims)};
  if (grad_enabled()) return composite(saved, gy[0], attrs, true);
  const LayerNormBackward::Attrs wanted{attrs, saved.wants(1) || saved.wants(2)};
  auto [dx, dw, db] = apply_all<LayerNormBackward>(wanted, gy[0], saved.inputs[0], saved.inputs[1],
                                                   saved.outputs[1], saved.outputs[2]);
  return {std::move(dx), std::move(dw), std::move(db)};
}

Grads RmsNorm::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<RmsNorm>();
  if (grad_enabled()) return composite(saved, gy[0], attrs, false);
  const LayerNormBackward::Attrs wanted{attrs, saved.wants(1)};
  auto [dx, dw, db] = apply_all<LayerNormBackward>(wanted, gy[0], saved.inputs[0], saved.inputs[1],
                                                   Tensor{}, saved.outputs[1]);
  return {std::move(dx), std::move(dw)};
}

}  // namespace mezzo::op
