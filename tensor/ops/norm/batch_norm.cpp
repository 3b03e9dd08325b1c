// Shape rules and gradients of the ops in batch_norm.h.
#include "batch_norm.h"

#include <string_view>

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../elementwise/compare.h"
#include "../elementwise/selection.h"
#include "../wide.h"
#include "norm_checks.h"
#include "normalize.h"

namespace mezzo::op {

namespace {

void check_statistics(Inputs in, const BatchNorm::Attrs& attrs, std::string_view op) {
  const Tensor& x = in[0];
  if (!attrs.training && !(in[3].defined() && in[4].defined()))
    fail<ValueError>(op, {.what = "running statistics are needed outside training",
                          .got = str("mean ", in[3], " and variance ", in[4]),
                          .hint = "pass {.training = true}"});
  const std::int64_t channels = x.shape()[1];
  if (attrs.training && channels > 0 && x.numel() / channels == 1)
    fail<ShapeError>(op, {.what = "one value per channel has no variance to train on",
                          .got = str(x),
                          .expected = "more than one value per channel",
                          .hint = "use a larger batch, or eval()"});
}

/** Checks the optional residual. With another dtype or shape the fused sum would differ from x +
 *  residual. */
void check_residual(const Tensor& x, const Tensor& residual, std::string_view op) {
  check_values(x, residual, x.shape(), "residual", op);
  if (residual.defined() && residual.dtype() != x.dtype())
    fail<DtypeError>(op, {.what = "the residual has another dtype than the input",
                          .got = str("input ", x, " and residual ", residual),
                          .expected = str("dtype ", x.dtype()),
                          .hint = "use relu(batch_norm(x) + residual)"});
}

OutSpecs checked(Inputs in, const BatchNorm::Attrs& attrs, std::string_view op) {
  const Tensor& x = in[0];
  check_batch_norm_operands(in, op);
  check_statistics(in, attrs, op);
  const OutSpec statistic{{x.shape()[1]}, compute_dtype(x.dtype())};
  return {{x.shape(), x.dtype()}, statistic, statistic, statistic};
}

/** Returns the spec of the gradient of x in a gradient op. */
OutSpec like_x(Inputs in) {
  return {.shape = in[1].shape(), .dtype = in[1].dtype(), .format = in[1].memory_format()};
}

}  // namespace

OutSpecs BatchNorm::infer(Inputs in, const Attrs& attrs) { return checked(in, attrs, traits.name); }

OutSpecs BatchNormRelu::infer(Inputs in, const Attrs& attrs) {
  const OutSpecs specs = checked(in, attrs, traits.name);
  check_residual(in[0], in[6], traits.name);
  return specs;
}

OutSpecs BatchNormBackward::infer(Inputs in, const Attrs&) {
  const OutSpec per_channel{{in[1].shape()[1]}, compute_dtype(in[1].dtype())};
  return {like_x(in), per_channel, per_channel};
}

OutSpecs BatchNormReluBackward::infer(Inputs in, const Attrs& attrs) {
  const OutSpecs of_norm = BatchNormBackward::infer(in, attrs);
  const OutSpec& x = of_norm.items[0];
  const OutSpec residual = in[6].defined() ? x : OutSpec{Shape{0}, x.dtype};
  return {x, of_norm.items[1], of_norm.items[2], residual};
}

OutSpecs UpdateRunning::infer(Inputs in, const Attrs&) { return {{in[0].shape(), in[0].dtype()}}; }

std::span<OpInfo* const> batch_norm_ops() { return infos_of(BatchNormOps{}); }

// Gradients of batch_norm and batch_norm_relu.

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
