// Shape rules of normalisation over the batch.
#include "batch_norm.h"

#include <string_view>

#include "../core/registry.h"
#include "../text/text.h"
#include "norm_checks.h"

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

}  // namespace mezzo::op
