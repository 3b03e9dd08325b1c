// Shape rules and gradients of the ops in layer_norm.h.
#include "layer_norm.h"

#include <array>

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../elementwise/elementwise_rule.h"
#include "../elementwise/operators.h"
#include "../shape/copy.h"
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

// x may be of f32 and the branch of 16 bits, as their sum under casts.
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

/** Returns the sum of the other gradients of x, if the engine has appended it to those of the
 *  results. */
Tensor rest_of(const Saved& saved, const Grads& gy) {
  return gy.size() > saved.outputs.size() ? gy.back() : Tensor{};
}

/** Returns the gradients of a norm of rows, with `rest`, if defined, added to that of x. */
std::array<Tensor, 3> fused(const LayerNormBackward::Attrs& wants, const Tensor& g, const Tensor& x,
                            const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                            const Tensor& rest) {
  if (rest.defined()) return apply_all<AddLayerNormBackward>(wants, g, x, weight, mean, rstd, rest);
  return apply_all<LayerNormBackward>(wants, g, x, weight, mean, rstd);
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
          : fused(wanted(saved, attrs, 1, 2), gy[0], x, saved.inputs[1], saved.outputs[1],
                  saved.outputs[2], rest_of(saved, gy));
  return {std::move(dx), std::move(dw), std::move(db)};
}

namespace {

/** Returns the gradients of AddLayerNorm on a device by the kernel of one op: of x in f32 and
 *  rounded to `low`, the branch's dtype, and of weight and bias. `rest` may be undefined. */
template <class Op>
std::array<Tensor, 4> rounded_gradients(const LayerNormBackward::Attrs& attrs, DType low,
                                        std::initializer_list<Tensor> operands) {
  const OpInfo& info = op_info<Op>;
  const std::span<const Tensor> in(operands.begin(), operands.size());
  const OutSpecs specs = Op::infer(in, attrs);
  const Device device = in[1].device();
  std::array<Tensor, 4> out;
  for (std::size_t i = 0; i < 3; ++i)
    out[i] = empty_tensor(specs.items[i].shape, specs.items[i].dtype, device);
  out[3] = empty_tensor(in[1].shape(), low, device);
  TraceHook* const hook = thread_hooks().trace;
  if (hook) hook->enter_forward(info);
  info.kernel[static_cast<std::size_t>(device.kind)](info, in, out, &attrs);
  if (hook) hook->trace(info, in, std::span(out).first(3));
  if (hook) hook->leave_forward(info);
  return {std::move(out[0]), std::move(out[3]), std::move(out[1]), std::move(out[2])};
}

/** Returns the gradient of the branch from that of the sum, for a repeated branch with the bits of
 *  the gradient of add(). */
Tensor branch_gradient(const Saved& saved, const Tensor& dx) {
  const Shape& shape = saved.shape(1);
  if (!saved.wants(1) || shape == dx.shape() || grad_enabled() || !is_low(dx.dtype())) return dx;
  return saved.gradient_dtype(1) == dx.dtype() ? mezzo::detail::summed_gradient(dx, shape)
                                               : late_to_f32(dx);
}

}  // namespace

Grads AddLayerNorm::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<AddLayerNorm>();
  const Tensor &sum = saved.outputs[0], &weight = saved.inputs[2], &rest = gy[0], &g = gy[1];
  if (!g.defined()) return {rest, branch_gradient(saved, rest)};
  if (!sum.defined())  // only the bias is wanted
    return {Tensor{}, Tensor{}, Tensor{}, over_rows(wide(g), attrs.dims)};
  const bool adds = !grad_enabled() && rest.defined() && is_alike(rest, sum);
  const LayerNormBackward::Attrs wants = wanted(saved, attrs, 2, 3);
  const DType low = saved.gradient_dtype(1);
  if (!grad_enabled() && sum.device().kind != DeviceKind::cpu && saved.wants(1) && is_low(low) &&
      sum.dtype() == DType::f32 && adds == rest.defined()) {
    auto [dx, rounded, dw, db] =
        adds ? rounded_gradients<AddLayerNormBackward>(
                   wants, low, {g, sum, weight, saved.outputs[2], saved.outputs[3], rest})
             : rounded_gradients<LayerNormBackward>(
                   wants, low, {g, sum, weight, saved.outputs[2], saved.outputs[3]});
    return {std::move(dx), std::move(rounded), std::move(dw), std::move(db)};
  }
  auto [dx, dw, db] = grad_enabled()
                          ? composite(sum, weight, g, attrs, true, {saved.wants(2), saved.wants(3)})
                          : fused(wants, g, sum, weight, saved.outputs[2], saved.outputs[3],
                                  adds ? rest : Tensor{});
  if (rest.defined() && !adds) dx = dx.to(sum.dtype()) + rest;
  return {dx, branch_gradient(saved, dx), std::move(dw), std::move(db)};
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
      fused(wants, gy[0], x, weight, Tensor{}, saved.outputs[1], rest_of(saved, gy));
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
