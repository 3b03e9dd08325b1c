// Shape rules of normalisation over the trailing dimensions.
#include "layer_norm.h"

#include "../core/registry.h"
#include "../text/text.h"
#include "norm_checks.h"

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

}  // namespace mezzo::op
