// Shape rules and gradients of the ops in layer_norm.h.
#include "layer_norm.h"

#include <array>

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../elementwise/operators.h"
#include "../wide.h"
#include "norm_checks.h"
#include "normalize.h"

namespace mezzo::op {

namespace {

void check_rows(const Tensor& x, const Shape& dims, std::string_view op) {
  check_floating_input(x, op);
  bool fits = dims.rank() >= 1 && dims.rank() <= x.dim();
  for (int i = 0; fits && i < dims.rank(); ++i)
    fits = x.shape()[x.dim() - dims.rank() + i] == dims[i];
  if (!fits)
    fail<ShapeError>(op, {.what = "the input does not end in the normalised shape",
                          .got = str("input ", x, " and normalized_shape ", dims),
                          .expected = "the sizes of the last dimensions"});
}

/** Returns the spec of one value per row. */
OutSpec per_row(const Tensor& x, const Shape& dims) {
  Shape rows;
  for (int i = 0; i < x.dim() - dims.rank(); ++i) rows.push_back(x.shape()[i]);
  return {rows, compute_dtype(x.dtype())};
}

}  // namespace

OutSpecs LayerNorm::infer(Inputs in, const Attrs& attrs) {
  check_rows(in[0], attrs.dims, traits.name);
  check_values(in[0], in[1], attrs.dims, "weight", traits.name);
  check_values(in[0], in[2], attrs.dims, "bias", traits.name);
  const OutSpec statistic = per_row(in[0], attrs.dims);
  return {{in[0].shape(), in[0].dtype()}, statistic, statistic};
}

OutSpecs LayerNormBackward::infer(Inputs in, const Attrs& attrs) {
  const DType arithmetic = compute_dtype(in[1].dtype());
  const bool rounds = arithmetic == DType::f32 && in[1].device().kind != DeviceKind::cpu;
  const auto affine = [&](DType dtype) {
    return OutSpec{attrs.wants_affine ? attrs.dims : Shape{0}, rounds ? dtype : arithmetic};
  };
  return {{in[1].shape(), in[1].dtype()}, affine(attrs.weight), affine(attrs.bias)};
}

OutSpecs AddLayerNorm::infer(Inputs in, const Attrs& attrs) {
  const Tensor normalised[] = {in[0], in[2], in[3]};
  const OutSpecs of = LayerNorm::infer(normalised, attrs);
  return {{in[0].shape(), in[0].dtype()}, of.items[0], of.items[1], of.items[2]};
}

OutSpecs AddLayerNormBackward::infer(Inputs in, const Attrs& attrs) {
  return LayerNormBackward::infer(in.first(5), attrs);
}

OutSpecs RmsNorm::infer(Inputs in, const Attrs& attrs) {
  check_rows(in[0], attrs.dims, traits.name);
  check_values(in[0], in[1], attrs.dims, "weight", traits.name);
  return {{in[0].shape(), in[0].dtype()}, per_row(in[0], attrs.dims)};
}

std::span<OpInfo* const> layer_norm_ops() { return infos_of(LayerNormOps{}); }

// Gradients of layer_norm, also of a sum, and of rms_norm.

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

/** Which gradients of weight and bias are requested. */
struct WantsAffine {
  bool weight, bias;
};

/** Returns the gradients of x, weight and bias in public ops; of rms_norm if not `centered`. */
std::array<Tensor, 3> composite(const Tensor& input, const Tensor& weight, const Tensor& gy,
                                const RowNormAttrs& attrs, bool centered, WantsAffine wants) {
  const Tensor x = wide(input), g = wide(gy);
  const Dims dims(row_dims(x.shape(), attrs.dims, true));
  const Normalized row(x, dims, attrs.eps, centered);
  const Tensor gw = weight.defined() ? g * wide(weight) : g;
  std::array<Tensor, 3> gradients{row.gradient(gw, dims, centered)};
  if (wants.weight) gradients[1] = over_rows(g * row.normal, attrs.dims);
  if (wants.bias) gradients[2] = over_rows(g, attrs.dims);
  return gradients;
}

/** Returns the attributes of the fused gradient; `weight` and `bias` are numbers of operands. */
LayerNormBackward::Attrs wanted(const Saved& saved, const RowNormAttrs& attrs, int weight,
                                int bias) {
  return {attrs, saved.wants(weight) || saved.wants(bias), saved.gradient_dtype(weight),
          saved.gradient_dtype(bias)};
}

/** Returns whether the gradient of a sum can be added in the kernel of the sum's gradient. */
bool is_alike(const Tensor& g, const Tensor& sum) {
  return g.shape() == sum.shape() && g.dtype() == sum.dtype() && g.device() == sum.device();
}

}  // namespace

Grads LayerNorm::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<LayerNorm>();
  const Tensor& x = saved.inputs[0];
  if (!x.defined())  // only the bias is wanted
    return {Tensor{}, Tensor{}, over_rows(wide(gy[0]), attrs.dims)};
  auto [dx, dw, db] =
      grad_enabled()
          ? composite(x, saved.inputs[1], gy[0], attrs, true, {saved.wants(1), saved.wants(2)})
          : apply_all<LayerNormBackward>(wanted(saved, attrs, 1, 2), gy[0], x, saved.inputs[1],
                                         saved.outputs[1], saved.outputs[2]);
  return {std::move(dx), std::move(dw), std::move(db)};
}

Grads AddLayerNorm::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<AddLayerNorm>();
  const Tensor &sum = saved.outputs[0], &weight = saved.inputs[2], &rest = gy[0], &g = gy[1];
  if (!g.defined()) return {rest, rest};
  if (!sum.defined())  // only the bias is wanted
    return {Tensor{}, Tensor{}, Tensor{}, over_rows(wide(g), attrs.dims)};
  const bool adds = !grad_enabled() && rest.defined() && is_alike(rest, sum);
  const LayerNormBackward::Attrs wants = wanted(saved, attrs, 2, 3);
  auto [dx, dw, db] =
      grad_enabled() ? composite(sum, weight, g, attrs, true, {saved.wants(2), saved.wants(3)})
      : adds
          ? apply_all<AddLayerNormBackward>(wants, g, sum, weight, saved.outputs[2],
                                            saved.outputs[3], rest)
          : apply_all<LayerNormBackward>(wants, g, sum, weight, saved.outputs[2], saved.outputs[3]);
  if (rest.defined() && !adds) dx = dx.to(sum.dtype()) + rest;
  return {dx, dx, std::move(dw), std::move(db)};
}

Grads RmsNorm::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<RmsNorm>();
  const Tensor &x = saved.inputs[0], &weight = saved.inputs[1];
  if (grad_enabled()) {
    auto [dx, dw, none] = composite(x, weight, gy[0], attrs, false, {saved.wants(1), false});
    return {std::move(dx), std::move(dw)};
  }
  const LayerNormBackward::Attrs wants{attrs, saved.wants(1), saved.gradient_dtype(1)};
  auto [dx, dw, db] =
      apply_all<LayerNormBackward>(wants, gy[0], x, weight, Tensor{}, saved.outputs[1]);
  return {std::move(dx), std::move(dw)};
}

}  // namespace mezzo::op

namespace mezzo {

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const LayerNormOptions& options) {
  op::check_at_least_zero(options.eps, "eps", "layer_norm");
  return apply_with<op::LayerNorm>({normalized_shape, options.eps}, x, options.weight,
                                   options.bias);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const RmsNormOptions& options) {
  const double epsilon = x.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23;
  const double eps = options.eps.value_or(epsilon);
  op::check_at_least_zero(eps, "eps", "rms_norm");
  return apply_with<op::RmsNorm>({normalized_shape, eps}, x, options.weight);
}

}  // namespace mezzo
